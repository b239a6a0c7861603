import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;

/** What the consumers of a topic of orders have in common. */
final class Orders {
	private Orders() {}

	static ConsumerFactory<byte[], byte[]> consumers(String brokers, String group) {
		Map<String, Object> config = new HashMap<>();
		config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
		config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
		config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
		return new DefaultKafkaConsumerFactory<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
	}

	static KafkaTemplate<byte[], byte[]> template(String brokers) {
		return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(
				Map.<String, Object>of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, brokers), new ByteArraySerializer(), new ByteArraySerializer()));
	}

	/** Whether Skald has redriven the record. */
	static boolean redriven(ConsumerRecord<?, ?> record) {
		return record.headers().lastHeader("x-dlq-message-id") != null;
	}

	/** A failure as in real applications: the cause is wrapped in an exception of their own. */
	static RuntimeException failure(String what) {
		return new IllegalStateException("order " + what, new java.net.SocketTimeoutException("Read timed out"));
	}

	/** Tells the test that a record was consumed, and with which headers. */
	static void consumed(ConsumerRecord<byte[], byte[]> record) {
		StringBuilder names = new StringBuilder();
		for (Header h : record.headers()) {
			names.append(' ').append(h.key());
		}
		consumed(record.value(), names.toString());
	}

	static synchronized void consumed(byte[] value, String names) {
		System.out.println("CONSUMED " + new String(value, StandardCharsets.UTF_8) + names);
		System.out.flush();
	}
}
