package accesspages

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// systemPage shows the state of the server. Parts that the visitor may not read, or that this
// server does not have, are replaced by a problem.
type systemPage struct {
	Version  *client.Version
	Ready    *client.Readiness
	NotReady *client.Problem
	Leader   *client.SchedulerLeader
	Nodes    *client.NodeList
	Unused   []unusedIndex
	Settings []client.Setting
	Changes  []client.SettingChange
	Storage  *client.Storage
	Largest  int64 // bytes of the largest table, which gets a bar of full length
	Refused  map[string]*client.Problem
	Buttons  []web.Button
	Change   *web.Button // button for each setting; nil: the pages are read-only
	Now      time.Time
}

// unusedIndex is an index that no query has used since the server began collecting statistics,
// although it costs writes and disk space. Unique indexes are omitted, because they enforce a
// constraint.
type unusedIndex struct {
	Table, Name string
	Bytes       int64
}

// MayChange reports whether the visitor may change the settings.
func (d systemPage) MayChange() bool { return d.Change != nil && d.Change.Needs == "" }

// Bar returns the length of a bar in percent.
func (d systemPage) Bar(bytes int64) int64 { return bytes * 100 / max(d.Largest, 1) }

func (p *pages) system(v *web.Visit) (*web.Page, error) {
	ctx, api := v.Context(), p.kit.Client
	d := systemPage{Refused: map[string]*client.Problem{}, Now: v.Now}
	if !p.kit.ReadOnly {
		d.Change = &web.Button{Label: "Change", Needs: v.Lacks("jobs:admin", true)}
	}
	version, err := api.GetVersionWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	d.Version = version.JSON200
	ready, err := api.GetReadinessWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	d.Ready, d.NotReady = ready.JSON200, ready.ApplicationProblemJSONDefault
	leader, err := api.GetLeaderWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	d.Leader, d.Refused["leader"] = leader.JSON200, leader.ApplicationProblemJSONDefault
	nodes, err := api.ListNodesWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	d.Nodes, d.Refused["nodes"] = nodes.JSON200, nodes.ApplicationProblemJSONDefault
	settings, err := api.GetSettingsWithResponse(ctx, &client.GetSettingsParams{})
	if err != nil {
		return nil, err
	}
	if settings.JSON200 != nil {
		d.Settings = settings.JSON200.Settings
	}
	d.Refused["settings"] = settings.ApplicationProblemJSONDefault
	changes, err := api.ListSettingChangesWithResponse(ctx, &client.ListSettingChangesParams{})
	if err != nil {
		return nil, err
	}
	if changes.JSON200 != nil {
		d.Changes = changes.JSON200.Changes
	}
	storage, err := api.GetStorageWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	d.Storage, d.Refused["storage"] = storage.JSON200, storage.ApplicationProblemJSONDefault
	if d.Storage != nil {
		slices.SortFunc(d.Storage.Tables, func(a, b client.TableUsage) int { return cmp.Compare(b.TotalBytes, a.TotalBytes) })
		for _, t := range d.Storage.Tables {
			d.Largest = max(d.Largest, t.TotalBytes)
			for _, x := range t.Indexes {
				if x.Scans == 0 && !x.Unique {
					d.Unused = append(d.Unused, unusedIndex{t.Name, x.Name, x.Bytes})
				}
			}
		}
		slices.SortStableFunc(d.Unused, func(a, b unusedIndex) int { return cmp.Compare(b.Bytes, a.Bytes) })
	}
	if !p.kit.ReadOnly {
		d.Buttons = []web.Button{v.Button("Archive ended sagas", "/ui/system/retention", "sagas:admin",
			"First shows how many sagas of each workflow would be archived.", web.Changes)}
	}
	return &web.Page{Template: "system", Title: "System", Nav: "System", Refresh: 10, Data: d}, nil
}

// figure formats a number as a person would type it.
func figure(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func (p *pages) changeSetting(v *web.Visit) (*web.Action, error) {
	res, err := p.kit.Client.GetSettingsWithResponse(v.Context(), &client.GetSettingsParams{})
	if err != nil {
		return nil, err
	}
	all, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Settings, func(s client.Setting) bool { return s.Name == v.PathValue("setting") })
	if i < 0 {
		return nil, web.ErrNoPage
	}
	s := all.Settings[i]
	return &web.Action{
		Label: "Change", Title: "Change " + s.Name, Nav: "System", Back: web.Link{Name: "System", URL: "/ui/system"},
		Class: web.Changes, Needs: "jobs:admin", Deployment: true, NoKey: true, ETag: res.HTTPResponse.Header.Get("ETag"),
		Edits: true, Subject: s.Name, DryRun: web.DryRunInQuery,
		Means: fmt.Sprintf("%s. Unit: %s. Current value: %s; default: %s. A change takes effect: %s.", s.Description, s.Unit,
			figure(s.Value), figure(s.Default), s.Effect),
		Fields: []web.Field{{
			Name: "value", Kind: "number", Value: figure(s.Value), Hint: "empty: the default",
			Label: fmt.Sprintf("New value, from %s to %s %s (empty: the default)",
				figure(s.Minimum), figure(s.Maximum), s.Unit),
		}},
		Body: func(_ web.Form, members map[string]any) error {
			members["values"] = map[string]any{s.Name: members["value"]}
			delete(members, "value")
			return nil
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.ChangeSettingsWithBody(ctx, &client.ChangeSettingsParams{}, web.JSON, body, edit)
		},
		Done: func([]byte) string { return "/ui/system" },
	}, nil
}

func (p *pages) runRetention(*web.Visit) (*web.Action, error) {
	return &web.Action{
		Label: "Archive", Title: "Archive ended sagas", Nav: "System", Back: web.Link{Name: "System", URL: "/ui/system"},
		Class: web.Safe, NoReason: true, Needs: "sagas:admin",
		Means:  "Moves sagas whose retention has expired to the archive, where they can still be read and restored.",
		DryRun: web.DryRunInQuery,
		Fields: []web.Field{{
			Name: "older_than", Label: "Ended before (empty: according to the settings and workflows)",
			Hint: "2026-01-01T00:00:00Z",
		}},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.RunRetentionWithBody(ctx, &client.RunRetentionParams{}, web.JSON, body, edit)
		},
		Show: func(answer []byte) (*web.Preview, error) {
			var r client.RetentionResult
			if err := json.Unmarshal(answer, &r); err != nil {
				return nil, err
			}
			show := &web.Preview{Heads: []string{"Workflow", "Completed", "Otherwise ended"}}
			if show.Sentences = web.Planned(r.Changes); show.Sentences == nil {
				show.Ends = "No sagas would be archived."
			}
			for _, w := range r.Workflows {
				show.Rows = append(show.Rows, []string{w.WorkflowName, web.Count(w.Completed), web.Count(w.Failed)})
			}
			return show, nil
		},
		Done: func([]byte) string { return "/ui/system" },
	}, nil
}
