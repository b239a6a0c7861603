package shop

import (
	"crypto/sha256"
	"encoding/hex"
)

// The limits of this small shop.
const (
	stock       = 100   // units of each article
	creditLimit = 10000 // the largest amount that can be charged to a card
)

// service contains what differs between the participants.
type service struct {
	name string
	// idField and idPrefix define the id that an execute returns: {"charge_id": "ch_…"}.
	idField, idPrefix string
	// refuse returns the code of the business rule that forbids the order, or "".
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

// done is the output of a step that was done.
func (s service) done(key string, o order) map[string]any {
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
	return out
}

// id returns the id of the effect of a key.
func (s service) id(key string) string {
	sum := sha256.Sum256([]byte(key))
	return s.idPrefix + hex.EncodeToString(sum[:8])
}
