package dlq

import (
	"regexp"
	"strings"
)

// wrappers are exceptions in which libraries wrap other exceptions, given as the last part of their
// names in lower case. Used as the type, they would put every failure of a topic into a single
// group of unknown class.
var wrappers = words(`
	listenerexecutionfailedexception timestampedexception batchlistenerfailedexception kafkaexception
	messagingexception messagehandlingexception messagedeliveryexception messagetransformationexception
	nestedruntimeexception nestedcheckedexception nestedservletexception servletexception exhaustedretryexception
	retryexhaustedexception reactiveexception compositeexception
	completionexception executionexception invocationtargetexception undeclaredthrowableexception
	privilegedactionexception uncheckedexecutionexception executionerror exceptionininitializererror
	runtimeexception exception throwable connectexception streamsexception ejbexception
	camelexecutionexception runtimecamelexception workerexception
	aggregateexception targetinvocationexception`)

// wrapper reports whether an exception only wraps another one.
func wrapper(name string) bool {
	if strings.HasPrefix(name, "java.net.") { // its ConnectException is a different exception
		return false
	}
	return wrappers[strings.ToLower(name[strings.LastIndexAny(name, ".$")+1:])]
}

// typeOf returns the type of a failure: the innermost exception if the exception, or the cause that
// the tool names, is a known wrapper; otherwise that cause, otherwise the exception.
func typeOf(kind, cause, message, stack string) string {
	named := kind
	if cause != "" {
		named = cause
	}
	if !wrapper(kind) && !wrapper(named) {
		return named
	}
	if inner := innermost(stack); inner != "" {
		return inner
	}
	if wrapper(named) {
		if inner := nested(message); inner != "" {
			return inner
		}
	}
	return named
}

// className returns the name of an exception with its package or outer class.
var className = regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_]*(?:[.$][\p{L}_][\p{L}\p{N}_]*)+$`)

// innermost returns the last cause in a stack trace that is not a wrapper, or "" if there is none.
// Such a line begins with "Caused by: " in Java, and with blanks and "---> " in .NET.
func innermost(stack string) (name string) {
	for _, mark := range []string{"Caused by: ", "---> "} {
		for at := 0; ; {
			i := strings.Index(stack[at:], mark)
			if i < 0 {
				break
			}
			before, after := stack[:at+i], stack[at+i+len(mark):]
			at += i + len(mark)
			if mark == "---> " {
				before = strings.TrimRight(before, " ")
			}
			if before != "" && before[len(before)-1] != '\n' {
				continue // part of a message, or the cause of a suppressed exception
			}
			found := after[:min(len(after), MaxWord)]
			if end := strings.IndexAny(found, ": \t\r\n("); end >= 0 {
				found = found[:end]
			}
			if className.MatchString(found) && (name == "" || !wrapper(found)) {
				name = found
			}
		}
	}
	return name
}

// nested returns the exception with which a wrapper's message continues. Spring 5 writes "…; nested
// exception is NAME: …", and an exception that was created from just a cause has that cause as its
// message.
func nested(message string) string {
	const is = "nested exception is "
	if at := strings.LastIndex(message, is); at >= 0 {
		message = message[at+len(is):]
	}
	name, _, _ := strings.Cut(message[:min(len(message), MaxWord)], ":")
	if className.MatchString(name) && (strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Error")) {
		return name
	}
	return ""
}
