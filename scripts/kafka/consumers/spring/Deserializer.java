import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.serializer.ErrorHandlingDeserializer;
import org.springframework.kafka.support.serializer.JsonDeserializer;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A consumer that reads JSON. Its DeadLetterPublishingRecoverer publishes records that are not JSON
 * as dead letters, with custom header names. Arguments: brokers, topic, group.
 */
@Configuration(proxyBeanMethods = false)
@EnableKafka
public class Deserializer {
	private static String brokers;
	private static String group;

	public static void main(String[] args) throws Exception {
		brokers = args[0];
		System.setProperty("topic", args[1]);
		group = args[2];
		new AnnotationConfigApplicationContext(Deserializer.class);
		Thread.currentThread().join();
	}

	@Bean
	ConcurrentKafkaListenerContainerFactory<byte[], Map<?, ?>> kafkaListenerContainerFactory() {
		Map<String, Object> config = new HashMap<>();
		config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
		config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
		config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
		JsonDeserializer<Map<?, ?>> json = new JsonDeserializer<>(Map.class, false);
		ConcurrentKafkaListenerContainerFactory<byte[], Map<?, ?>> factory = new ConcurrentKafkaListenerContainerFactory<>();
		factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(config, new ByteArrayDeserializer(), new ErrorHandlingDeserializer<>(json)));
		DeadLetterPublishingRecoverer recoverer = new DeadLetterPublishingRecoverer(Orders.template(brokers));
		recoverer.setRetainExceptionHeader(true);
		recoverer.setHeaderNamesSupplier(() -> DeadLetterPublishingRecoverer.HeaderNames.Builder.original()
				.offsetHeader("acme-original-offset").timestampHeader("acme-original-timestamp").timestampTypeHeader("acme-original-timestamp-type")
				.topicHeader("acme-original-topic").partitionHeader("acme-original-partition")
				.consumerGroupHeader("acme-original-consumer-group").exception().keyExceptionFqcn("acme-key-exception-fqcn")
				.exceptionFqcn("acme-exception-fqcn").exceptionCauseFqcn("acme-exception-cause-fqcn")
				.keyExceptionMessage("acme-key-exception-message").exceptionMessage("acme-exception-message")
				.keyExceptionStacktrace("acme-key-exception-stacktrace").exceptionStacktrace("acme-exception-stacktrace").build());
		factory.setCommonErrorHandler(new DefaultErrorHandler(recoverer, new FixedBackOff(10, 1)));
		return factory;
	}

	@KafkaListener(topics = "${topic}")
	void order(ConsumerRecord<byte[], Map<?, ?>> record) {
		Orders.consumed(record.value().toString().getBytes(), "");
	}
}
