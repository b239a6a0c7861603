package shop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
)

// The limits of this small shop.
const (
	stock       = 100   // pieces of every article
	creditLimit = 10000 // the largest amount a card is charged with
)

// service is what differs between the participants.
type service struct {
	name string
	// idField and idPrefix name what an execute makes: {"charge_id": "ch_…"}.
	idField, idPrefix string
	// refuse returns the code of the business rule that forbids the order, ""
	// when none does.
	refuse func(order) string
}

var (
	inventory = service{"inventory", "reservation_id", "rsv_", refuseReservation}
	payments  = service{"payments", "charge_id", "ch_", refuseCharge}
	orders    = service{"orders", "order_id", "ord_", func(order) string { return "" }}
	anyStep   = service{"steps", "effect_id", "fx_", func(order) string { return "" }}
)

func refuseReservation(o order) string {
	switch {
	case o.Quantity == nil:
		return ""
	case *o.Quantity < 1:
		return "quantity_invalid"
	case *o.Quantity > stock:
		return "out_of_stock"
	}
	return ""
}

func refuseCharge(o order) string {
	switch {
	case o.Amount < 0:
		return "amount_invalid"
	case o.Amount > creditLimit || o.Card == "declined":
		return "insufficient_funds"
	}
	return ""
}

// done is the answer to an execute that was applied, and the step's output.
func (s service) done(key string, o order) answer {
	out := map[string]any{s.idField: s.id(key)}
	switch s.name {
	case inventory.name:
		out["quantity"] = 1
		if o.Quantity != nil {
			out["quantity"] = *o.Quantity
		}
	case payments.name:
		out["amount"] = o.Amount
	}
	return ok(out)
}

// undone is the answer to a compensate; something says whether there was
// anything to take back.
func (s service) undone(key string, something bool) answer {
	return ok(map[string]any{"undo_id": s.id(key), "undone": something})
}

// id names the effect of a key. It is a function of the key, as an id made up
// before a crash must not be made up differently after it.
func (s service) id(key string) string {
	sum := sha256.Sum256([]byte(key))
	return s.idPrefix + hex.EncodeToString(sum[:8])
}

func ok(out map[string]any) answer {
	body, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings, finite numbers and bools
	}
	return answer{status: http.StatusOK, body: body}
}
