package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

const (
	// inlineLabel is the default workflow name of inline steps.
	inlineLabel = "inline"
	// maxCached bounds each of the maps below.
	maxCached = 512
)

// Definitions reads workflows for new sagas through a cache. Cached definitions may be outdated. A
// store rejects a saga of an outdated or disabled workflow, and the caller then reads again with
// fresh.
type Definitions struct {
	store  workflow.Store
	limits workflow.Limits
	// runnable rejects definitions that this server cannot run.
	runnable Runnable

	mu       sync.RWMutex
	latest   map[nameKey]workflow.Registered // only enabled workflows
	versions map[versionKey]*workflow.Definition
	inline   map[inlineKey]workflow.Registered
}

// Runnable returns the reason why this server cannot run a tenant's definition.
type Runnable func(ctx context.Context, tenant uuid.UUID, d *workflow.Definition) error

type nameKey struct {
	tenant uuid.UUID
	name   string
}

type versionKey struct {
	nameKey
	version int
}

// inlineKey is a hash of the whole inline definition. The name in the store is too short to be safe
// against definitions crafted to collide.
type inlineKey struct {
	tenant uuid.UUID
	sum    [sha256.Size]byte
}

// NewDefinitions returns an empty cache. runnable rejects definitions that this server cannot run.
func NewDefinitions(store workflow.Store, limits workflow.Limits, runnable Runnable) *Definitions {
	return &Definitions{
		store: store, limits: limits, runnable: runnable,
		latest:   map[nameKey]workflow.Registered{},
		versions: map[versionKey]*workflow.Definition{},
		inline:   map[inlineKey]workflow.Registered{},
	}
}

// Latest returns the newest version of a workflow; fresh bypasses the cache. Its faults are those
// of workflow.Store.Get, and Conflict with CodeDisabled.
func (d *Definitions) Latest(ctx context.Context, tenant uuid.UUID, name string,
	fresh bool) (workflow.Registered, error) {
	key := nameKey{tenant, name}
	if !fresh {
		d.mu.RLock()
		w, ok := d.latest[key]
		d.mu.RUnlock()
		if ok {
			return w, nil
		}
	}
	w, err := d.get(ctx, tenant, name, 0)
	if err == nil {
		remember(&d.mu, d.latest, key, w)
	}
	return w, err
}

// get returns a version of an enabled workflow, bypassing the cache; 0 means the latest version.
func (d *Definitions) get(ctx context.Context, tenant uuid.UUID, name string,
	version int) (workflow.Registered, error) {
	w, err := d.store.Get(ctx, tenant, name, version)
	if err != nil {
		return workflow.Registered{}, err
	}
	if !w.Enabled {
		return workflow.Registered{}, fault.New(fault.Conflict, workflow.CodeDisabled, "workflow %q is disabled", name)
	}
	return w, nil
}

// Pinned returns one version for a new saga; fresh checks in the store that the workflow
// is enabled, with the faults of Latest.
func (d *Definitions) Pinned(ctx context.Context, tenant uuid.UUID, name string, version int,
	fresh bool) (*workflow.Definition, error) {
	if !fresh {
		return d.Version(ctx, tenant, name, version)
	}
	w, err := d.get(ctx, tenant, name, version)
	if err != nil {
		return nil, err
	}
	return w.Definition, nil
}

// Version returns one version, whether its workflow is enabled or not. Fault: NotFound.
func (d *Definitions) Version(ctx context.Context, tenant uuid.UUID, name string,
	version int) (*workflow.Definition, error) {
	key := versionKey{nameKey{tenant, name}, version}
	d.mu.RLock()
	def := d.versions[key]
	d.mu.RUnlock()
	if def != nil {
		return def, nil
	}
	w, err := d.store.Get(ctx, tenant, name, version)
	if err != nil {
		return nil, err
	}
	remember(&d.mu, d.versions, key, w.Definition)
	return w.Definition, nil
}

// Inline returns the workflow of inline steps (canonical JSON), and registers it if it is new.
// label is the client's name for it. The faults are those of a definition, with pointers into the
// request: /steps/….
func (d *Definitions) Inline(ctx context.Context, tenant uuid.UUID, label string, steps json.RawMessage, fresh bool,
	now time.Time) (workflow.Registered, error) {
	doc, err := inlineDocument(label, steps)
	if err != nil {
		return workflow.Registered{}, err
	}
	key := inlineKey{tenant, sha256.Sum256(doc)}
	if !fresh {
		d.mu.RLock()
		w, ok := d.inline[key]
		d.mu.RUnlock()
		if ok {
			return w, nil
		}
	}
	def, err := d.parseInline(ctx, tenant, doc)
	if err != nil {
		return workflow.Registered{}, err
	}
	w, _, err := d.store.Register(ctx, tenant, def, true, now)
	if err != nil {
		return workflow.Registered{}, err
	}
	remember(&d.mu, d.inline, key, w)
	remember(&d.mu, d.versions, versionKey{nameKey{tenant, w.Name}, w.Version}, w.Definition)
	return w, nil
}

// parseInline parses and checks the document of inline steps, and derives its name from its
// content.
func (d *Definitions) parseInline(ctx context.Context, tenant uuid.UUID, doc []byte) (*workflow.Definition, error) {
	def, err := workflow.ParseJSON(doc, d.limits)
	if err != nil {
		return nil, inRequest(err)
	}
	if err := d.runnable(ctx, tenant, def); err != nil {
		return nil, err
	}
	def.Name = saga.InlinePrefix + hex.EncodeToString(def.Hash()[:8])
	return def, nil
}

// inlineDocument is the document of a definition that consists of inline steps.
func inlineDocument(label string, steps json.RawMessage) ([]byte, error) {
	if label == "" {
		label = inlineLabel
	}
	named, err := json.Marshal(label)
	return append(append(append(append([]byte(`{"name":`), named...), `,"steps":`...), steps...), '}'), err
}

// inRequest converts pointers into an inline definition to pointers into the request.
func inRequest(err error) error {
	f := fault.As(err)
	if f == nil {
		return err
	}
	for i := range f.Fields {
		if f.Fields[i].Pointer == "/name" {
			f.Fields[i].Pointer = "/workflow_name"
		}
	}
	if rest, ok := strings.CutPrefix(f.Detail, "/name:"); ok {
		f.Detail = "/workflow_name:" + rest
	}
	return f
}

// remember stores value in a cache of at most maxCached entries. If the cache is full, an arbitrary
// other entry is dropped.
func remember[K comparable, V any](mu *sync.RWMutex, cache map[K]V, key K, value V) {
	mu.Lock()
	defer mu.Unlock()
	if _, known := cache[key]; !known && len(cache) >= maxCached {
		for other := range cache {
			delete(cache, other)
			break
		}
	}
	cache[key] = value
}
