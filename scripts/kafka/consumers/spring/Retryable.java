import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.retrytopic.DltStrategy;
import org.springframework.retry.annotation.Backoff;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * A consumer with non-blocking retries. A record that was not redriven fails at every attempt. A
 * record that Skald has redriven fails once more, and is consumed only if the framework starts its
 * retries over. Arguments: brokers, topic, group.
 */
@Configuration(proxyBeanMethods = false)
@EnableKafkaRetryTopic
public class Retryable {
	private static String brokers;
	private static String group;
	private final Map<String, Boolean> failed = new ConcurrentHashMap<>();

	public static void main(String[] args) throws Exception {
		brokers = args[0];
		System.setProperty("topic", args[1]);
		group = args[2];
		new AnnotationConfigApplicationContext(Retryable.class);
		Thread.currentThread().join();
	}

	@Bean
	ConcurrentKafkaListenerContainerFactory<byte[], byte[]> kafkaListenerContainerFactory() {
		ConcurrentKafkaListenerContainerFactory<byte[], byte[]> factory = new ConcurrentKafkaListenerContainerFactory<>();
		factory.setConsumerFactory(Orders.consumers(brokers, group));
		return factory;
	}

	@Bean
	KafkaTemplate<byte[], byte[]> defaultRetryTopicKafkaTemplate() {
		return Orders.template(brokers);
	}

	@Bean
	KafkaAdmin admin() {
		return new KafkaAdmin(Map.<String, Object>of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, brokers));
	}

	@Bean
	TaskScheduler scheduler() {
		return new ThreadPoolTaskScheduler();
	}

	@RetryableTopic(attempts = "3", backoff = @Backoff(delay = 100), dltStrategy = DltStrategy.FAIL_ON_ERROR, autoStartDltHandler = "false",
			numPartitions = "1", replicationFactor = "1")
	@KafkaListener(topics = "${topic}")
	void order(ConsumerRecord<byte[], byte[]> record) {
		if (!Orders.redriven(record)) {
			throw Orders.failure("refused");
		}
		if (failed.putIfAbsent(new String(record.value()), true) == null) {
			throw Orders.failure("refused once more");
		}
		Orders.consumed(record);
	}
}
