package principal_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// wanted is the table of docs/security.md.
var wanted = map[principal.Role]string{
	principal.Worker:  "jobs:work",
	principal.Auditor: "sagas:read workflows:read dlq:read jobs:read",
	principal.Operator: "jobs:work sagas:read workflows:read dlq:read jobs:read " +
		"sagas:write workflows:write dlq:write jobs:write payloads:read",
	principal.Admin: "jobs:work sagas:read workflows:read dlq:read jobs:read " +
		"sagas:write workflows:write dlq:write jobs:write payloads:read " +
		"sagas:admin workflows:admin dlq:admin jobs:admin access:admin",
	"":     "",
	"root": "",
}

func TestRolesHaveExactlyThePermissionsOfTheTable(t *testing.T) {
	all := strings.Fields(wanted[principal.Admin])
	for role, list := range wanted {
		held := strings.Fields(list)
		got := []string{}
		for _, p := range role.Permissions() {
			got = append(got, string(p))
		}
		if diff := cmp.Diff(held, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", role, diff)
		}
		for _, p := range append(all, "sagas:delete", "", "admin") {
			p := principal.Permission(p)
			if want := slices.Contains(held, string(p)); role.Allows(p) != want {
				t.Errorf("%q allows %q = %t, want %t", role, p, !want, want)
			}
			who := principal.Principal{Role: role}
			if err := who.Require(p); (err == nil) != role.Allows(p) || err != nil && !strings.Contains(err.Error(), string(p)) {
				t.Errorf("%q requires %q: %v", role, p, err)
			}
			if p.Known() != slices.Contains(all, string(p)) {
				t.Errorf("%q is known: %t", p, p.Known())
			}
		}
	}
}

func TestManualContainsTheTableOfRoles(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| Permission | worker | auditor | operator | admin |\n|---|---|---|---|---|\n")
	for _, p := range principal.Admin.Permissions() {
		table.WriteString("| `" + string(p) + "` |")
		for _, role := range principal.Roles {
			if role.Allows(p) {
				table.WriteString(" yes")
			}
			table.WriteString(" |")
		}
		table.WriteString("\n")
	}
	if !strings.Contains(string(page), "\n"+table.String()+"\n") {
		t.Errorf("docs/security.md lacks the table\n%s", table.String())
	}
}

func TestOperatorIncludesWorkerAndAuditorAndAdminIncludesAll(t *testing.T) {
	for _, pair := range [][2]principal.Role{
		{principal.Worker, principal.Operator}, {principal.Auditor, principal.Operator}, {principal.Operator, principal.Admin},
	} {
		for _, p := range pair[0].Permissions() {
			if !pair[1].Allows(p) {
				t.Errorf("%s lacks %s, which %s has", pair[1], p, pair[0])
			}
		}
	}
}

func TestTenantOfARequest(t *testing.T) {
	home := tenant.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-00000000000a"), Region: "eu", Major: 1, Minor: 2}
	other := uuid.MustParse("00000000-0000-0000-0000-00000000000b")
	fallback := tenant.Tenant{
		ID:     uuid.MustParse("00000000-0000-0000-0000-000000000001"),
		Region: "default",
		Major:  7,
		Minor:  8,
	}
	bound := principal.Principal{Tenant: home}
	unnamed := principal.Principal{}
	bare := principal.Principal{Tenant: tenant.Tenant{ID: fallback.ID}}
	free := principal.Principal{AnyTenant: true}
	for _, tt := range []struct {
		name   string
		who    principal.Principal
		choice principal.Choice
		want   tenant.Tenant
		wrong  bool
	}{
		{"without headers a bound credential is for its tenant", bound, principal.Choice{}, home, false},
		{"without headers one that names no tenant is for the default", unnamed, principal.Choice{}, fallback, false},
		{"one that names the default tenant has its region and versions too", bare, principal.Choice{}, fallback, false},
		{"without headers a free one is for the default", free, principal.Choice{}, fallback, false},
		{"a bound one may name its own tenant", bound, principal.Choice{ID: &home.ID, Region: new("eu"), Major: new(1), Minor: new(2)}, home, false},
		{"a bound one may not name another tenant", bound, principal.Choice{ID: &other}, tenant.Tenant{}, true},
		{"a bound one may not name another region", bound, principal.Choice{Region: new("us")}, tenant.Tenant{}, true},
		{"a bound one may not name another major version", bound, principal.Choice{Major: new(9)}, tenant.Tenant{}, true},
		{"a bound one may not name another minor version", bound, principal.Choice{Minor: new(0)}, tenant.Tenant{}, true},
		{"one that names no tenant is bound to the default", unnamed, principal.Choice{ID: &other}, tenant.Tenant{}, true},
		{"a free one may choose, and begins without region and versions", free, principal.Choice{ID: &other}, tenant.Tenant{ID: other}, false},
		{"a free one may choose everything", free, principal.Choice{ID: &other, Region: new("us"), Major: new(3), Minor: new(4)}, tenant.Tenant{ID: other, Region: "us", Major: 3, Minor: 4}, false},
		{"a free one that names the default keeps what it has", free, principal.Choice{ID: &fallback.ID, Minor: new(9)}, tenant.Tenant{ID: fallback.ID, Region: "default", Major: 7, Minor: 9}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.who.TenantFor(tt.choice, fallback)
			switch {
			case tt.wrong:
				if fault.KindOf(err) != fault.Forbidden || !fault.IsCode(err, principal.CodeTenantMismatch) {
					t.Errorf("error = %v, want %s", err, principal.CodeTenantMismatch)
				}
			case err != nil || got != tt.want:
				t.Errorf("tenant = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
