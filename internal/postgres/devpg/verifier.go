package devpg

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// iterations is how often a password is hashed before it is compared. PostgreSQL's default is 4096,
// which protects passwords chosen by people if the stored verifiers are stolen, but costs each new
// connection 2.5 ms of CPU time. Ours has 130 random bits, too many to guess no matter how cheap a
// guess is. Some drivers reject fewer than 1000.
const iterations = 1000

// verifier returns the SCRAM-SHA-256 verifier (RFC 5802, 7677) that the server stores for a
// password, in PostgreSQL's notation.
func verifier(password string) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt)
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	keyed := func(purpose string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(purpose))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(keyed("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s",
		iterations, text(salt), text(stored[:]), text(keyed("Server Key"))), nil
}
