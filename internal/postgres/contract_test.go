package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/storetest"
)

var (
	_ saga.Store     = (*postgres.Sagas)(nil)
	_ saga.Ownership = (*postgres.Sagas)(nil)
	_ saga.Archive   = (*postgres.Sagas)(nil)
	_ saga.Reports   = (*postgres.Sagas)(nil)
	_ workflow.Store = (*postgres.Workflows)(nil)
	_ saga.Trail     = (*postgres.Trail)(nil)
	_ saga.Chain     = (*postgres.Trail)(nil)
	_ access.Store   = (*postgres.Keys)(nil)
)

func TestSagasKeepTheContract(t *testing.T)        { storetest.Sagas(t, openEnv) }
func TestOwnershipKeepsTheContract(t *testing.T)   { storetest.Ownership(t, emptied(t, nil)) }
func TestWorkflowsKeepTheContract(t *testing.T)    { storetest.Workflows(t, openEnv) }
func TestTrailKeepsTheContract(t *testing.T)       { storetest.Trail(t, openEnv) }
func TestKeysKeepTheContract(t *testing.T)         { storetest.Keys(t, openEnv) }
func TestTheArchiveKeepsTheContract(t *testing.T)  { storetest.Archive(t, openEnv) }
func TestWebhooksKeepTheContract(t *testing.T)     { storetest.Webhooks(t, openEnv) }
func TestPublicationsKeepTheContract(t *testing.T) { storetest.Publications(t, openEnv) }
