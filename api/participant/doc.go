// Package participant makes a function a participant of Skald's sagas: an http.Handler that keeps
// the rules of docs/participants.md, so that the function does not have to.
//
//	db, err := participant.Open("postgres", dsn)
//	…
//	store, err := participant.SQL(db, participant.PostgreSQL)
//	…
//	handler, err := participant.New(participant.Config{Store: store, Execute: charge, Compensate: refund})
//	…
//	http.Handle("POST /charges", handler)
//
// The function and the handler write in the same transaction: the answer is in the table
// skald_calls (see Migration) if and only if the function's effect is in the database. A repeated
// call gets the same answer, byte for byte, and the function is not called; a concurrent repeat
// waits. A compensation of a call that never ran succeeds without calling the function, and the
// call itself is refused if it arrives later. A call with an older fence is refused.
//
// A function whose work takes longer than a call may last returns Later. A worker completes the
// work with Handler.Finish, in the transaction that writes its effects.
//
// Effects outside the transaction, such as a call to a bank, are not covered. Pass Call.Key on as
// the idempotency key of such calls.
//
// Files, each on top of those before it: call, answer, later, step, store, turns, handler, report, finish, together,
// sql, sqllater, doc.
package participant
