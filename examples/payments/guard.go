package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/participant"
)

// guarded is a participant in front of an interface that accepts no idempotency key: before it
// charges, it asks whether the order has been charged. The library prevents two calls of one step
// from running at the same time, and a charge from arriving after its refund. For real money, use
// participant.SQL as the store, so that this holds across restarts and processes.
func guarded(charges string) (*participant.Handler, error) {
	g := guard{charges: charges, refunds: strings.TrimSuffix(charges, "charges") + "refunds"}
	return participant.New(participant.Config{Store: participant.Memory(), Execute: g.charge, Compensate: g.refund})
}

type guard struct{ charges, refunds string }

func (g guard) charge(ctx context.Context, _ *sql.Tx, c *participant.Call) (any, error) {
	var in request
	if err := c.Decode(&in); err != nil {
		return nil, participant.Refuse("UNREADABLE_ORDER", err.Error())
	}
	var found struct{ Charges []charge }
	if _, err := g.call(ctx, http.MethodGet, g.charges+"?order="+strconv.Itoa(in.Order), nil, &found); err != nil {
		return nil, err
	}
	if len(found.Charges) > 0 { // by an earlier attempt whose answer was lost
		return found.Charges[0], nil
	}
	var out charge
	switch status, err := g.call(ctx, http.MethodPost, g.charges, request{Order: in.Order, Amount: in.Amount}, &out); {
	case err != nil:
		return nil, err // it may have been charged: the next attempt asks
	case status == http.StatusPaymentRequired:
		return nil, participant.Refuse("DECLINED", "the card was declined")
	case status != http.StatusOK:
		return nil, fmt.Errorf("the bank answered %d", status)
	}
	return out, nil
}

func (g guard) refund(ctx context.Context, _ *sql.Tx, c *participant.Call) (any, error) {
	var in request
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return nil, err
	}
	status, err := g.call(ctx, http.MethodPost, g.refunds, request{Order: in.Order}, nil)
	if err == nil && status != http.StatusOK && status != http.StatusNotFound { // 404: nothing was charged
		err = fmt.Errorf("the bank answered %d", status)
	}
	return nil, err
}

// call sends a request to the bank. It decodes an answer of 200 into into; nil means that the body
// is not needed.
func (g guard) call(ctx context.Context, method, url string, body, into any) (status int, err error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return 0, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, &sent)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && into != nil {
		err = json.NewDecoder(http.MaxBytesReader(nil, res.Body, maxBody)).Decode(into)
	}
	return res.StatusCode, err
}
