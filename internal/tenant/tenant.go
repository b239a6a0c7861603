// Package tenant identifies the owner of data: every row contains its tenant, and every query
// is restricted to one.
package tenant

import "github.com/google/uuid"

// Tenant is seed 4's tenant. Queries use only ID; the other fields are stored as received.
type Tenant struct {
	ID     uuid.UUID
	Region string // at most 32 characters
	Major  int    // 0..65535
	Minor  int    // 0..65535
}
