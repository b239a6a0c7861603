package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
)

// actedAt maps members of responses that name an actor to the member with the time of the action.
// The actor's display name at that time goes into the member with the suffix _name, which named
// fills in from the record of actions. Other actors are stored together with their names.
var actedAt = map[string][]string{
	"created_by": {"created_at"}, "updated_by": {"updated_at"}, "revoked_by": {"revoked_at"},
	"changed_by": {"changed_at"}, "held_by": {"since", "held_at"}, "initiated_by": {"created_at"}, "actor": {"at"},
}

// aboutMembers are the members whose values identify the object of an action: the object itself, or
// the one that it came from.
var aboutMembers = []string{"id", "name", "topic", "job_definition", "root_run_id", "backfill_id", "dlq_message_id",
	"event_id", "-"}

// naming describes which field indexes of a contract type contain actors.
type naming struct {
	actors []namedActor
	about  []int // indexes of the fields in aboutMembers
	saga   []int // indexes of the fields with the saga's ID
	inside []int // indexes of the fields whose types contain actors
}

type namedActor struct{ actor, name, at int } // fields

// namings maps each type to its naming; nil means that the type contains no actors.
var namings sync.Map

func namingOf(t reflect.Type) *naming {
	if known, ok := namings.Load(t); ok {
		return known.(*naming)
	}
	out := namingWithin(t, nil)
	namings.Store(t, out)
	return out
}

// namingWithin is namingOf for a type inside other types, which it may in turn contain.
func namingWithin(t reflect.Type, outer []reflect.Type) *naming {
	switch {
	case slices.Contains(outer, t):
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice:
		if namingWithin(t.Elem(), append(outer, t)) != nil {
			return &naming{}
		}
	case t.Kind() == reflect.Struct:
		return namingOfStruct(t, append(outer, t))
	}
	return nil
}

func namingOfStruct(t reflect.Type, outer []reflect.Type) *naming {
	out, members := &naming{}, map[string]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members[name] = i
		switch {
		case slices.Contains(aboutMembers, name):
			out.about = append(out.about, i)
		case name == "saga_id":
			out.saga = append(out.saga, i)
		case (f.IsExported() || f.Anonymous) && namingWithin(f.Type, outer) != nil:
			out.inside = append(out.inside, i)
		}
	}
	for actor, times := range actedAt {
		a, has := members[actor]
		name, named := members[actor+"_name"]
		at := slices.IndexFunc(times, func(at string) bool { _, is := members[at]; return is })
		if has && named && at >= 0 && (actor != "actor" || t == reflect.TypeFor[api.JobEvent]()) {
			out.actors = append(out.actors, namedActor{a, name, members[times[at]]})
		}
	}
	if out.actors == nil && out.inside == nil {
		return nil
	}
	return out
}

// unnamed is an actor in a response and the place for its name.
type unnamed struct {
	operator.Deed
	name reflect.Value
}

// named adds the display names of the actors to a response. If the names cannot be read, the
// response is sent without them, because the request may have taken effect.
func (s *server) named(ctx context.Context, out api.Response) api.Response {
	a, plain := out.(httpkit.Answer)
	if s.cfg.DeadLetters == nil || !plain || a.Body == nil || namingOf(reflect.TypeOf(a.Body)) == nil {
		return out
	}
	v := reflect.New(reflect.TypeOf(a.Body)).Elem()
	v.Set(reflect.ValueOf(a.Body))
	var all []unnamed
	path := chi.RouteContext(ctx).URLParams.Values
	collect(v, path, &all)
	req := httpkit.RequestOf(ctx)
	if a.Status == http.StatusCreated && !a.Replayed {
		all = slices.DeleteFunc(all, func(u unnamed) bool { // the action of this request
			if u.Actor == req.Who.Subject {
				setName(u.name, req.Who.Name)
			}
			return u.Actor == req.Who.Subject
		})
	}
	tenants := []uuid.UUID{req.Tenant.ID}
	if req.Who.AnyTenant {
		tenants = append(tenants, operator.Deployment)
	}
	for _, tenant := range tenants {
		if len(all) == 0 {
			break
		}
		deeds := make([]operator.Deed, len(all))
		for i := range all {
			deeds[i] = all[i].Deed
		}
		names, err := s.cfg.DeadLetters.Actions.Names(ctx, tenant, deeds)
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "a response without the names of its actors", slog.String("request_id", req.ID),
				slog.Any("error", err))
			break
		}
		var left []unnamed
		for i, name := range names {
			if setName(all[i].name, name); name == "" {
				left = append(left, all[i])
			}
		}
		all = left
	}
	a.Body = v.Interface()
	return a
}

func setName(v reflect.Value, name string) {
	switch {
	case name == "":
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.ValueOf(&name))
	default:
		v.SetString(name)
	}
}

// collect appends the actors in v that may have names. path has the parameters of the request's
// path, which may be the only place that names the object of the response.
func collect(v reflect.Value, path []string, all *[]unnamed) {
	is := namingOf(v.Type())
	switch {
	case is == nil:
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), path, all)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), path, all)
		}
	default:
		for _, i := range is.inside {
			collect(v.Field(i), path, all)
		}
		for _, member := range is.actors {
			actor, at := textIn(v.Field(member.actor)), reflect.Indirect(v.Field(member.at))
			if !principal.HasName(actor) || !at.IsValid() { // a dry run has an actor but no time
				continue
			}
			u := unnamed{name: v.Field(member.name)}
			u.Actor, u.About = actor, slices.Clone(path)
			u.At, _ = at.Interface().(time.Time)
			for _, i := range is.about {
				if about := textIn(v.Field(i)); about != "" {
					u.About = append(u.About, about)
				}
			}
			for _, i := range is.saga {
				u.Saga, _ = uuid.Parse(textIn(v.Field(i)))
			}
			*all = append(*all, u)
		}
	}
}

// textIn returns a text or ID, or the ID of an object in the response, or "" if there is none.
func textIn(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	switch of := reflect.Indirect(v).Interface().(type) {
	case string:
		return of
	case uuid.UUID:
		return of.String()
	case api.JobDefinitionSummary:
		return of.ID.String()
	}
	return ""
}
