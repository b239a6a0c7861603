package manual

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// TestThePageOfKafka runs docs/kafka.md on the brokers of TEST_KAFKA_BROKERS, such as the Apache
// Kafka of `scripts/kafka.sh test`, or else on a broker of its own.
func TestThePageOfKafka(t *testing.T) {
	t.Parallel()
	brokers := os.Getenv("TEST_KAFKA_BROKERS")
	if brokers == "" {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(fake.Close)
		brokers = strings.Join(fake.ListenAddrs(), ",")
	}
	addr := testnet.FreeAddress(t)
	Session{
		Page: "docs/kafka.md",
		Env:  []string{"SKALD_DATABASE_URL=" + testdb.DSN(t), "SKALD_LISTEN_ADDR=" + addr, "SKALD_KAFKA_BROKERS=" + brokers},
		Replace: map[string]string{
			"127.0.0.1:8080":               addr,
			"127.0.0.1:19092":              brokers,
			"go run ./scripts/kafka/topic": Program(t, "./scripts/kafka/topic"),
		},
	}.Run(t)
}
