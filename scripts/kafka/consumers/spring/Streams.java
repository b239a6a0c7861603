import java.util.Map;
import java.util.function.Consumer;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.Message;

/** A consumer of Spring Cloud Stream whose binder writes dead letters. Arguments: brokers, topic, group. */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Streams {
	public static void main(String[] args) {
		SpringApplication app = new SpringApplication(Streams.class);
		app.setDefaultProperties(Map.of(
				"spring.main.web-application-type", "none",
				"spring.cloud.function.definition", "orders",
				"spring.cloud.stream.kafka.binder.brokers", args[0],
				"spring.cloud.stream.bindings.orders-in-0.destination", args[1],
				"spring.cloud.stream.bindings.orders-in-0.group", args[2],
				"spring.cloud.stream.bindings.orders-in-0.consumer.max-attempts", "2",
				"spring.cloud.stream.kafka.bindings.orders-in-0.consumer.enable-dlq", "true",
				"spring.cloud.stream.kafka.bindings.orders-in-0.consumer.start-offset", "earliest"));
		app.run();
	}

	@Bean
	Consumer<Message<byte[]>> orders() {
		return message -> {
			if (!message.getHeaders().containsKey("x-dlq-message-id")) {
				throw Orders.failure("refused");
			}
			Orders.consumed(message.getPayload(), " " + String.join(" ", message.getHeaders().keySet()));
		};
	}
}
