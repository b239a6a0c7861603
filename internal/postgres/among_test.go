package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
)

func TestConditionsAreMadeOfValuesOfTheRules(t *testing.T) {
	type word string
	type number int16
	for _, tt := range []struct{ got, want string }{
		{postgres.Among([]word{"DEAD"}), " = 'DEAD'"},
		{postgres.Among([]word{"DEAD", "HELD"}), " IN ('DEAD', 'HELD')"},
		{postgres.Among([]string{"no_answer", "unowned"}), " IN ('no_answer', 'unowned')"},
		{postgres.Among([]number{3}), " = 3"},
		{postgres.Among([]number{0, 1, 7}), " IN (0, 1, 7)"},
		{postgres.Among([]word(nil)), " IN (NULL)"},
		{postgres.Among([]number{}), " IN (NULL)"},
		{postgres.Among([]word{"DEAD", "x' OR 'a' = 'a"}), " IN ('DEAD')"},
		{postgres.Among([]word{"x' OR 'a' = 'a"}), " = NULL"},
		{postgres.Literals([]word{"DEAD", "HELD"}), "'DEAD', 'HELD'"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q; want %q", tt.got, tt.want)
		}
	}
}
