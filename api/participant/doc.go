// Package participant makes a function a participant of Skald's sagas: an http.Handler that keeps
// the rules of docs/participants.md, so that the function need not know them.
//
//	db, err := participant.Open("postgres", dsn)
//	…
//	store, err := participant.SQL(db, participant.PostgreSQL)
//	…
//	handler, err := participant.New(participant.Config{Store: store, Execute: charge, Compensate: refund})
//	…
//	http.Handle("POST /charges", handler)
//
// The function writes in the transaction that it is given, and so does the handler: the answer
// is in the table skald_calls (see Migration) when, and only when, the function's effect is in the
// database. A repeated call gets the same answer, byte for byte, and the function is not called;
// a concurrent repeat waits. A compensation of a call that was never done succeeds without the
// function, and the call is refused if it arrives later. A call of an older fence is refused.
//
// A function whose work takes longer than a call answers Later. A worker ends it with Handler.Finish, in the
// transaction in which its effects are written.
//
// Effects outside of the transaction, such as a call of a bank, are not covered by it: pass
// Call.Key on, as the idempotency key of that call.
//
// Files, each on top of those before it: call, answer, later, step, store, turns, handler, report, finish, together,
// sql, sqllater, doc.
package participant
