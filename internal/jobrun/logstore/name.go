package logstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Name identifies a log. All fields are required.
type Name struct {
	Tenant  uuid.UUID
	Run     uuid.UUID
	Attempt int       // starts at 1
	Created time.Time // the run's creation time; directories by its year and month, in UTC, keep each directory small
}

func (n Name) check() error {
	if n.Tenant == uuid.Nil || n.Run == uuid.Nil || n.Attempt < 1 || n.Created.UTC().Year() < 1970 ||
		n.Created.UTC().Year() > 9999 {
		return fmt.Errorf("logstore: invalid name of a log: tenant %s, run %s, attempt %d, created at %s", n.Tenant, n.Run, n.Attempt, n.Created)
	}
	return nil
}

// ref is tenant/year/month/run-attempt-checksum.ndjson.gz. It is relative to the directory, or to
// bucket and prefix, so that a store can be moved.
func (n Name) ref(sum [sha256.Size]byte) string {
	return fmt.Sprintf("%s%d-%x.ndjson.gz", n.prefix(), n.Attempt, sum)
}

// prefix is the common prefix of the references to all logs of the run.
func (n Name) prefix() string {
	return fmt.Sprintf("%s/%s/%s-", n.Tenant, n.Created.UTC().Format("2006/01"), n.Run)
}

var refForm = regexp.MustCompile(`^([0-9a-f-]{36})/([0-9]{4}/[0-9]{2})/([0-9a-f-]{36})-([1-9][0-9]{0,8})-([0-9a-f]{64})\.ndjson\.gz$`)

// NameOf parses a reference, so that its owner can be checked before the reference is used. Created
// contains only year and month. For a reference that Put cannot have created, it returns ErrRef.
func NameOf(ref string) (Name, error) {
	n, _, err := parse(ref)
	return n, err
}

func parse(ref string) (n Name, sum [sha256.Size]byte, err error) {
	part := refForm.FindStringSubmatch(ref)
	if part == nil {
		return Name{}, sum, ErrRef
	}
	var errs [5]error
	n.Tenant, errs[0] = uuid.Parse(part[1])
	n.Created, errs[1] = time.Parse("2006/01", part[2])
	n.Run, errs[2] = uuid.Parse(part[3])
	n.Attempt, errs[3] = strconv.Atoi(part[4])
	_, errs[4] = hex.Decode(sum[:], []byte(part[5]))
	if errs != [5]error{} || n.check() != nil || n.ref(sum) != ref {
		return Name{}, sum, ErrRef
	}
	return n, sum, nil
}
