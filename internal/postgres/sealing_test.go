package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/envelope"
	"github.com/skald-saga/skald/internal/storetest"
	"github.com/skald-saga/skald/internal/testdb"
)

// Two master keys.
const (
	keyOne = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
	keyTwo = "two:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
)

func keyring(t testing.TB, text string) *envelope.Keyring {
	t.Helper()
	keys, err := envelope.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// With encryption the stores mean the same as without.
func TestStoresKeepTheContractWithEncryption(t *testing.T) {
	keys := keyring(t, keyOne)
	open := func(t *testing.T) storetest.Env {
		t.Helper()
		env := envOf(t, connectWith(t, plainLogin(t, testdb.DSN(t)), keys))
		env.BriefErrors = true
		return env
	}
	t.Run("sagas", func(t *testing.T) { storetest.Sagas(t, open) })
	t.Run("ownership", func(t *testing.T) { storetest.Ownership(t, emptied(t, keys)) })
	t.Run("archive", func(t *testing.T) { storetest.Archive(t, open) })
	t.Run("trail", func(t *testing.T) { storetest.Trail(t, open) })
	t.Run("webhooks", func(t *testing.T) { storetest.Webhooks(t, open) })
	t.Run("publications", func(t *testing.T) { storetest.Publications(t, open) })
}
