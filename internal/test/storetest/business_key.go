package storetest

import (
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

var businessKeys = []contract{
	{"the business key of an unfinished saga is unique in its workflow and tenant", businessKeyAlone},
	{"the key of a saga that has ended is free again", businessKeyFreed},
	{"a join returns the unfinished saga, and its idempotency key leads to that saga", businessKeyJoins},
	{"of twenty concurrent creates with one business key, one is stored, and the others find it", businessKeyRace},
	{"two sagas with one business key in one batch become one saga", businessKeyTwins},
	{"a saga cannot be reopened while another has its business key", businessKeyReopen},
}

// of returns a change that sets the business key of a new saga.
func of(key string) func(*saga.NewSaga) {
	return func(n *saga.NewSaga) { n.BusinessKey = &key }
}

func joining(n *saga.NewSaga) { n.Join = true }

// wantCreated checks a result and the id of the existing saga in it.
func (f *fixture) wantCreated(r saga.CreateResult, want saga.Created, prior uuid.UUID) {
	f.t.Helper()
	if r.Created != want || r.Prior != prior {
		f.t.Errorf("result %d for %s, want %d for %s", r.Created, r.Prior, want, prior)
	}
}

func businessKeyAlone(f *fixture) {
	first := f.stored(f.unowned(of("order 7")))[0]
	second := f.unowned(of("order 7"))
	f.wantCreated(f.create(second)[0], saga.KeyActive, first.ID)
	f.absent(second.ID)
	other := begin(f.t, f.Env) // another tenant, with a workflow of the same name
	if r := other.create(other.unowned(of("order 7")))[0]; r.Created != saga.Stored {
		f.t.Errorf("another tenant's saga with the same key: result %d, want stored", r.Created)
	}
	if r := f.create(f.unowned(of("order 8")))[0]; r.Created != saga.Stored {
		f.t.Errorf("a saga with another key: result %d, want stored", r.Created)
	}
}

func businessKeyFreed(f *fixture) {
	f.play(f.stored(f.owned(f.owner, of("k")))[0], f.done(`1`), f.done(`2`), f.done(`3`))
	if r := f.create(f.unowned(of("k")))[0]; r.Created != saga.Stored {
		f.t.Errorf("result %d, want stored", r.Created)
	}
}

func businessKeyJoins(f *fixture) {
	first := f.stored(f.owned(f.owner, of("k")))[0]
	key := f.key("again", "hash")
	second := withKey(f.unowned(of("k"), joining), key)
	f.wantCreated(f.create(second)[0], saga.Joined, first.ID)
	f.absent(second.ID)
	f.play(first, f.done(`1`), f.done(`2`), f.done(`3`))
	// This saga was the response to the idempotency key, so a replay returns it permanently.
	f.wantCreated(f.create(withKey(f.unowned(of("k"), joining), key))[0], saga.Replayed, first.ID)
	fresh := f.unowned(of("k"), joining)
	if r := f.create(fresh)[0]; r.Created != saga.Stored {
		f.t.Errorf("no saga to join: result %d, want stored", r.Created)
	}
}

func businessKeyRace(f *fixture) {
	results := make([]saga.CreateResult, 20)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			n := f.unowned(of("k"))
			n.Join = i%2 == 0
			results[i] = f.create(n)[0]
			if results[i].Created == saga.Stored {
				results[i].Prior = n.ID
			}
		})
	}
	all.Wait()
	count := map[saga.Created]int{}
	for _, r := range results {
		count[r.Created]++
		if r.Prior != results[0].Prior {
			f.t.Errorf("found saga %s, another found %s", r.Prior, results[0].Prior)
		}
	}
	if count[saga.Stored] != 1 || count[saga.Stored]+count[saga.KeyActive]+count[saga.Joined] != len(results) {
		f.t.Errorf("results %v, want one stored, which the others find", count)
	}
}

func businessKeyTwins(f *fixture) {
	a, b, alone := f.unowned(of("k")), f.unowned(of("k")), f.unowned()
	r := f.create(a, b, alone)
	f.wantCreated(r[1], saga.KeyActive, a.ID)
	if r[0].Created != saga.Stored || r[2].Created != saga.Stored {
		f.t.Errorf("results %d and %d, want stored", r[0].Created, r[2].Created)
	}
}

func businessKeyReopen(f *fixture) {
	failed := f.into(saga.Failed, of("k"))
	next := f.stored(f.unowned(of("k")))[0]
	c := f.apply(failed, saga.ResumeRequested{})
	bystander := f.apply(f.into(saga.Failed), saga.ResumeRequested{})
	f.unchanged(failed.ID, func() {
		results := f.commit(c, bystander)
		if !fault.IsCode(results[0], saga.CodeBusinessKey) || results[1] != nil {
			f.t.Errorf("reopened while %s exists: %v; unrelated saga: %v", next.ID, results[0], results[1])
		}
	})
}
