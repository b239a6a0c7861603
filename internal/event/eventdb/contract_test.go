package eventdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/test/eventtest"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestWebhooksKeepTheContract(t *testing.T)     { eventtest.Webhooks(t, pgtest.OpenEnv) }
func TestPublicationsKeepTheContract(t *testing.T) { eventtest.Publications(t, pgtest.OpenEnv) }
