package mutants

import "testing"

func TestASeedDrawsTheSameRowsAgain(t *testing.T) {
	first, again, other := draw(7, 50, ""), draw(7, 50, ""), draw(8, 50, "")
	same := 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("row %d is %s, then %s", i, first[i].row, again[i].row)
		}
		if first[i] == other[i] {
			same++
		}
	}
	if len(first) != 50 || same > 25 {
		t.Errorf("%d rows, %d of which another seed draws in the same place", len(first), same)
	}
	if one := draw(0, 50, "X10"); len(one) != 1 || one[0].row != "X10" {
		t.Errorf("one row: %v", one)
	}
}
