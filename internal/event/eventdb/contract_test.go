package eventdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
)

func TestWebhooksKeepTheContract(t *testing.T)     { storetest.Webhooks(t, pgtest.OpenEnv) }
func TestPublicationsKeepTheContract(t *testing.T) { storetest.Publications(t, pgtest.OpenEnv) }
