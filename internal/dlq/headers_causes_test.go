package dlq

import "testing"

func TestTheInnermostCauseOfAWrapperIsTheError(t *testing.T) {
	t.Parallel()
	const java = "org.springframework.messaging.MessageHandlingException: error occurred in message handler [bean 'x'], failedMessage=GenericMessage [payload=byte[9]]\n" +
		"\tat a.B.c(B.java:1)\n\tSuppressed: java.io.IOException: Caused by: x\n\t\tat a.B.d(B.java:2)\n\tCaused by: java.lang.Error: not this one\n" +
		"Caused by: java.util.concurrent.CompletionException: java.net.SocketTimeoutException: Read timed out\n\t... 3 more\n" +
		"Caused by: java.net.SocketTimeoutException: Read timed out\n\tat a.B.e(B.java:3)\n\t... 4 more\n"
	const timeout = "java.net.SocketTimeoutException"
	for _, tt := range []struct {
		name                                   string
		kind, cause, message, stack, wantsType string
		class                                  ErrorClass
	}{
		{"no wrapper", "a.OrderRejected", "", "m", java, "a.OrderRejected", Unknown},
		{"the cause that is named", "a.OrderRejected", "a.NoStock", "m", java, "a.NoStock", Unknown},
		{"a wrapper without anything", "java.util.concurrent.ExecutionException", "", "m", "", "java.util.concurrent.ExecutionException", Unknown},
		{"a wrapper and a cause", "org.springframework.kafka.listener.ListenerExecutionFailedException", "java.lang.NullPointerException", "m", "", "java.lang.NullPointerException", Permanent},
		{"a wrapper in a wrapper, by the stack", "org.springframework.kafka.listener.ListenerExecutionFailedException", "java.util.concurrent.CompletionException", "m", java, timeout, Transient},
		{"the stack alone", "org.springframework.messaging.MessageHandlingException", "", "m", java, timeout, Transient},
		{"lines of Windows", "org.springframework.messaging.MessagingException", "", "", "a.B: x\r\nCaused by: java.lang.ClassCastException\r\n\tat x", "java.lang.ClassCastException", Permanent},
		{"an inner class", "java.lang.reflect.InvocationTargetException", "", "", "x\nCaused by: a.B$StockTimeout: m", "a.B$StockTimeout", Transient},
		{"a wrapper last", "java.lang.reflect.UndeclaredThrowableException", "", "", "x\nCaused by: java.net.ConnectException: m\nCaused by: java.util.concurrent.ExecutionException: n", "java.net.ConnectException", Transient},
		{"nothing but wrappers", "java.util.concurrent.CompletionException", "", "", "x\nCaused by: java.util.concurrent.ExecutionException: n", "java.util.concurrent.ExecutionException", Unknown},
		{"words of a message are no cause", "java.util.concurrent.CompletionException", "", "", "x\nCaused by: me, of course", "java.util.concurrent.CompletionException", Unknown},
		{"Spring 5", "org.springframework.kafka.listener.ListenerExecutionFailedException", "", "Listener failed; nested exception is java.net.ConnectException: refused", "", "java.net.ConnectException", Transient},
		{"a message made of the cause", "java.util.concurrent.CompletionException", "", "java.lang.NumberFormatException: For input", "", "java.lang.NumberFormatException", Permanent},
		{"a connector", "org.apache.kafka.connect.errors.ConnectException", "", "Exiting", "x\nCaused by: org.apache.kafka.common.errors.SerializationException: y", "org.apache.kafka.common.errors.SerializationException", Permanent},
		{"a refused connection is not a connector's", "java.net.ConnectException", "", "refused", "x\nCaused by: a.B: y", "java.net.ConnectException", Transient},
		{".NET", "System.AggregateException", "", "m", "System.AggregateException: m\n ---> System.TimeoutException: n\n   at A.B()\n", "System.TimeoutException", Transient},
	} {
		got := typeOf(tt.kind, tt.cause, tt.message, tt.stack)
		if got != tt.wantsType {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.wantsType)
		}
		if class := classOf("", got, tt.kind, tt.message); class != tt.class {
			t.Errorf("%s: %s is %s, want %s", tt.name, got, class, tt.class)
		}
		// The same through the headers of every family that can express it.
		for _, f := range []struct{ kind, cause, message, stack string }{
			{"kafka_dlt-exception-fqcn", "kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-message", "kafka_dlt-exception-stacktrace"},
			{"kafka_exception-fqcn", "kafka_exception-cause-fqcn", "kafka_exception-message", "kafka_exception-stacktrace"},
			{"x-exception-fqcn", "", "x-exception-message", "x-exception-stacktrace"},
			{"__connect.errors.exception.class.name", "", "__connect.errors.exception.message", "__connect.errors.exception.stacktrace"},
			{"__streams.errors.exception", "", "__streams.errors.message", "__streams.errors.stacktrace"},
			{"x-dlq-error-type", "", "x-dlq-error-message", "x-dlq-error-stack"},
		} {
			if tt.cause != "" && f.cause == "" {
				continue
			}
			r := Record{Place: Position{Topic: "a.dlq"}, Content: Content{Headers: []Header{
				{f.kind, []byte(tt.kind)}, {f.cause, []byte(tt.cause)}, {f.message, []byte(tt.message)}, {f.stack, []byte(tt.stack)}}}}
			if a := (Intake{}).Arrival(r); a.Failure.Type != tt.wantsType || a.Failure.Class != tt.class {
				t.Errorf("%s, %s: %s, %s", tt.name, f.kind, a.Failure.Type, a.Failure.Class)
			}
		}
	}
}
