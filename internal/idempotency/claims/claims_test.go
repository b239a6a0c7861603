package claims_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
)

func TestOnlyOneRequestHoldsAName(t *testing.T) {
	tenant, id := uuid.UUID{1}, uuid.UUID{2}
	key := &idempotency.Key{TenantID: tenant, Principal: "ann", Route: "POST /sagas", Key: "k"}
	with := func(change func(*idempotency.Key)) *idempotency.Key {
		k := *key
		change(&k)
		return &k
	}
	for name, tt := range map[string]struct {
		tenant, id uuid.UUID
		key        *idempotency.Key
		held       bool
	}{
		"the same key":            {tenant, uuid.Nil, key, true},
		"the same saga_id":        {tenant, id, nil, true},
		"both":                    {tenant, id, key, true},
		"another key":             {tenant, uuid.Nil, with(func(k *idempotency.Key) { k.Key = "other" }), false},
		"another principal's key": {tenant, uuid.Nil, with(func(k *idempotency.Key) { k.Principal = "bob" }), false},
		"the key of another path": {tenant, uuid.Nil, with(func(k *idempotency.Key) { k.Route = "POST /jobs" }), false},
		"another tenant's":        {uuid.UUID{3}, id, key, false},
		"no name":                 {tenant, uuid.Nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var requests claims.Requests
			release, err := requests.Hold(tenant, id, key)
			if err != nil {
				t.Fatal(err)
			}
			other, err := requests.Hold(tt.tenant, tt.id, tt.key)
			if held := fault.IsCode(err, idempotency.CodeInUse); held != tt.held || !held && err != nil {
				t.Fatalf("held: %t, %v; want %t", held, err, tt.held)
			}
			if other != nil {
				other()
			}
			release()
			again, err := requests.Hold(tenant, id, key)
			if err != nil {
				t.Fatalf("after the release: %v", err)
			}
			again()
		})
	}
}
