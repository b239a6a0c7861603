package redislease

import (
	"context"
	"crypto/x509"
)

// SlotOf is slotOf.
var SlotOf = slotOf

// ConnectTrusting connects to a URL with TLS as Hints does, but trusts only the given authorities.
func ConnectTrusting(ctx context.Context, rawURL string, roots *x509.CertPool) error {
	p, err := parseURL(rawURL)
	if err != nil {
		return err
	}
	p.tls.RootCAs = roots
	s := &servers{}
	defer s.close()
	return s.from(ctx, p, p.addrs[0])
}
