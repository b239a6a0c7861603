package postgres_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func TestADatabaseThatIsAwayIsToldFromOneThatRefuses(t *testing.T) {
	_, refused := net.Dial("tcp", testnet.ClosedAddress(t))
	if refused == nil {
		t.Fatal("a closed address answers")
	}
	server := func(code string) error { return &pq.Error{Code: pqerror.Code(code)} }
	for name, tt := range map[string]struct {
		err  error
		away bool
	}{
		"no listener":              {refused, true},
		"it hangs up":              {io.EOF, true},
		"it hangs up meanwhile":    {io.ErrUnexpectedEOF, true},
		"its name is unknown":      {&net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}, true},
		"it is silent":             {context.DeadlineExceeded, true},
		"it is starting":           {server("57P03"), true},
		"it is stopping":           {server("57P01"), true},
		"it has crashed":           {server("57P02"), true},
		"too many connections":     {server("53300"), true},
		"the connection was lost":  {server("08006"), true},
		"a wrong password":         {server("28P01"), false},
		"a role that is not there": {server("28000"), false},
		"no such database":         {server("3D000"), false},
		"a parameter of PgBouncer": {server("08P01"), false},
		"it refuses a certificate": {&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, false},
		"a full disk":              {server("53100"), false},
		"a setting":                {errors.New("unknown key"), false},
		"nothing":                  {nil, false},
	} {
		for _, err := range []error{tt.err, fmt.Errorf("migrate the database: %w", tt.err)} {
			if got := postgres.Away(err); got != tt.away {
				t.Errorf("%s: %v is away: %t", name, err, got)
			}
		}
	}
}
