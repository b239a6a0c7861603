package db

import (
	"testing"
	"testing/synctest"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	migrate "github.com/rubenv/sql-migrate"
)

func TestAMigrationThatIsTheVictimOfADeadlockIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, want := range map[string]int{"40P01": 3, "55P03": 3, "42601": 1} {
			tries := 0
			err := givingWay(t.Context(), func() error {
				if tries++; tries == 3 {
					return nil
				}
				return &migrate.TxError{Migration: &migrate.Migration{Id: "0180"}, Err: &pq.Error{Code: pqerror.Code(code)}}
			})
			if tries != want || (err == nil) != (want == 3) {
				t.Errorf("%s: %v after %d tries, want %d", code, err, tries, want)
			}
		}
	})
}
