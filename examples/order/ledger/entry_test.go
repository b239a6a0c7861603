package ledger

import "testing"

func TestWhatAnAnswerTellsItsCaller(t *testing.T) {
	for _, tt := range []struct {
		status                 int
		reply                  Reply
		done, refused, decided bool
	}{
		{200, Sent, true, false, true},
		{200, Delayed, true, false, true},
		{200, Dropped, false, false, true},
		{200, Garbage, false, false, true},
		{409, Sent, false, true, true},
		{409, Delayed, false, true, true},
		{409, Dropped, false, false, true},
		{400, Sent, false, true, false},
		{422, Sent, false, true, false},
		{408, Sent, false, false, false},
		{425, Sent, false, false, false},
		{429, Sent, false, false, false},
		{500, Sent, false, false, false},
		{503, Sent, false, false, false},
		{0, Dropped, false, false, false},
	} {
		e := Entry{Status: tt.status, Reply: tt.reply}
		if e.Done() != tt.done || e.Refused() != tt.refused || e.Decided() != tt.decided {
			t.Errorf("%d %s: done %t, refused %t, decided %t; want %t, %t, %t", tt.status, tt.reply,
				e.Done(), e.Refused(), e.Decided(), tt.done, tt.refused, tt.decided)
		}
	}
}
