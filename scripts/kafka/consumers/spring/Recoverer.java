import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A consumer whose DeadLetterPublishingRecoverer publishes every record that was not redriven.
 * Arguments: brokers, topic, group.
 */
@Configuration(proxyBeanMethods = false)
@EnableKafka
public class Recoverer {
	private static String brokers;
	private static String group;

	public static void main(String[] args) throws Exception {
		brokers = args[0];
		System.setProperty("topic", args[1]);
		group = args[2];
		new AnnotationConfigApplicationContext(Recoverer.class);
		Thread.currentThread().join();
	}

	@Bean
	ConcurrentKafkaListenerContainerFactory<byte[], byte[]> kafkaListenerContainerFactory() {
		ConcurrentKafkaListenerContainerFactory<byte[], byte[]> factory = new ConcurrentKafkaListenerContainerFactory<>();
		factory.setConsumerFactory(Orders.consumers(brokers, group));
		factory.getContainerProperties().setDeliveryAttemptHeader(true);
		factory.setCommonErrorHandler(
				new DefaultErrorHandler(new DeadLetterPublishingRecoverer(Orders.template(brokers)), new FixedBackOff(10, 1)));
		return factory;
	}

	@KafkaListener(topics = "${topic}")
	void order(ConsumerRecord<byte[], byte[]> record) {
		if (!Orders.redriven(record)) {
			throw Orders.failure("refused");
		}
		Orders.consumed(record);
	}
}
