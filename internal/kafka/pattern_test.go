package kafka_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/skald-saga/skald/internal/kafka"
)

// The expression in the manual matches the names that the tools choose.
func TestTheExpressionOfTheManual(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	given := regexp.MustCompile(`SKALD_INGEST_TOPICS='(\(\?i\)[^']*)'`).FindSubmatch(page)
	if given == nil {
		t.Fatal("the manual gives none")
	}
	p, err := kafka.NewPattern(string(given[1]), "")
	if err != nil {
		t.Fatal(err)
	}
	for topic, dead := range map[string]bool{
		"orders-dlt": true, "orders.DLT": true, "orders-retry-dlt": true, "error.orders.billing": true,
		"error.orders.v1.billing": true,
		"orders.dlq":              true, "ORDERS_DLQ": true,
		"orders": false, "orders-retry": false, "error": false, "error.log": false,
		"orders.error.billing": false, "dlq-orders": false,
		"orders-dlts": false,
	} {
		if p.Forbidden(topic) != dead {
			t.Errorf("%s matches %s: %v, want %v", topic, given[1], !dead, dead)
		}
	}
}
