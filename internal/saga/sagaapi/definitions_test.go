package sagaapi

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/admission"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// brokenStore has a valid definition, a damaged one, a missing one, and an outage.
type brokenStore struct {
	workflow.Store
	reads int
}

func (b *brokenStore) Get(_ context.Context, _ uuid.UUID, name string, version int) (workflow.Registered, error) {
	b.reads++
	switch name {
	case "damaged":
		return workflow.Registered{}, workflow.Unreadable(name, version)
	case "missing":
		return workflow.Registered{}, workflow.NotFound(name, version)
	case "outage":
		return workflow.Registered{}, errors.New("no answer")
	}
	return workflow.Registered{Definition: &workflow.Definition{Name: name, Steps: []workflow.Step{{Name: "a"}}}}, nil
}

// TestASagaOfADamagedDefinitionIsListed checks that it is listed without the members that need the
// definition, and that an outage is not mistaken for damage.
func TestASagaOfADamagedDefinitionIsListed(t *testing.T) {
	store := &brokenStore{}
	s := &Handlers{admission: &admission.Service{Definitions: admission.NewDefinitions(store, workflow.Limits{}, nil)}}
	damaged := map[string]error{}
	for range 2 {
		for name, marked := range map[string]bool{"whole": false, "damaged": true, "missing": true} {
			out, err := s.listed(t.Context(), uuid.Nil, &saga.Saga{WorkflowName: name, TotalSteps: 1}, true, damaged)
			if err != nil || (out.DefinitionUnreadable != nil) != marked || (out.CurrentStepName == nil) != marked {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
		}
	}
	if store.reads != 3 {
		t.Errorf("%d reads of three definitions", store.reads)
	}
	if _, err := s.listed(t.Context(), uuid.Nil, &saga.Saga{WorkflowName: "outage"}, true, damaged); err == nil {
		t.Error("an outage is taken for a damaged definition")
	}
}
