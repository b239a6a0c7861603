package config

import "errors"

// Environment is the profile. It selects the defaults, and prod rejects unsafe settings.
type Environment string

// The profiles. Load reads "production" as Prod.
const (
	Dev     Environment = "dev"
	Test    Environment = "test"
	Staging Environment = "staging"
	Prod    Environment = "prod"
)

// UnmarshalText parses the name of a profile; production is Prod.
func (e *Environment) UnmarshalText(text []byte) error {
	switch env := Environment(text); env {
	case Dev, Test, Staging, Prod:
		*e = env
	case "production":
		*e = Prod
	default:
		return errors.New("unknown environment")
	}
	return nil
}
