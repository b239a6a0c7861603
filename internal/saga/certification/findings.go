package certification

import (
	"slices"
)

// finding describes what a code means to the author of a participant.
type finding struct {
	code, rule, title, why string
	explains               []string // codes of breaches that are consequences of this one
}

var restartCodes = []string{
	"late_do_accepted_after_restart", "fence_forgotten_after_restart", "undone_nothing_after_restart",
	"answer_changed_after_restart", "done_again_after_undo_after_restart",
}

var againCodes = []string{
	"done_again_at_once", "done_again_after_a_lost_answer", "done_again_after_restart", "done_again_after_undo",
	"done_again_after_undo_after_restart", "answer_changed_after_restart",
}

// findings lists all possible findings, with causes before their consequences.
var findings = []finding{
	{"done_again", "1", "A repeated call is applied again.",
		"Skald repeats a call if it did not get the response; a participant that applies it again charges twice.",
		append([]string{"done_twice_behind_equal_answers", "answer_changed"}, againCodes...)},
	{"done_twice_behind_equal_answers", "1", "A repeated call gets the first response but takes effect again.",
		"The responses look right, so only the missing money reveals the error.", againCodes},
	{"done_again_after_an_error", "1", "A call that got an error response was applied, and its repeat is applied again.",
		"To Skald, 5xx means that the outcome is unknown, so it repeats the call: store the key together with the effect, " +
			"before responding.",
		againCodes},
	{"answered_before_commit", "3", "The participant responds before the effect is durable.",
		"A crash just after the response loses work that Skald believes to be done, and Skald won't repeat the call.",
		append([]string{"done_without_effect", "done_again_after_restart"}, restartCodes...)},
	{"done_again_at_once", "1", "Repeats that arrive at the same time are each applied.",
		"If two calls both find no key, both are applied: insert the key first, under a unique index.",
		[]string{"done_again_after_a_lost_answer", "late_do_accepted_at_once", "late_do_accepted_after_a_lost_answer"}},
	{"done_again_after_restart", "1", "The participant forgets keys when it restarts.",
		"Keys held only in memory are lost just when repeats are likely.", restartCodes},
	{"done_again_after_a_lost_answer", "1", "A call whose connection broke is applied again when it is repeated.",
		"When the connection breaks, Skald cannot know whether the call was applied: only a repeat can find out.",
		[]string{"done_again_after_undo", "late_do_accepted_after_a_lost_answer"}},
	{"answer_changed", "1", "A repeated call gets a different response, although it is not applied again.",
		"Later steps and the compensation work with the step's output: a new id in it would refer to nothing.",
		[]string{"answer_changed_after_restart"}},
	{"answer_changed_after_restart", "1",
		"After a restart, a repeated call gets a different response, although it is not applied again.",
		"Later steps and the compensation work with the step's output, so store it together with the key.", nil},
	{"repeat_refused", "1", "The repeat of a call that was applied is refused or fails.",
		"If the first response was lost, Skald takes the refusal of the repeat as the result and compensates the order.", nil},
	{"repeated_undo_fails", "1", "The repeat of a compensation is refused or fails.",
		"A compensation whose first response was lost gives up, and the saga needs an operator although everything is undone.", nil},
	{"late_do_accepted", "2", "An action is applied although its compensation arrived first.",
		"A call that timed out may be delivered after its compensation; if it is applied then, its effect is never undone.",
		[]string{"late_do_accepted_after_restart", "late_do_accepted_at_once", "late_do_accepted_after_a_lost_answer"}},
	{"late_do_accepted_after_restart", "2", "When the participant restarts, it forgets that a compensation came first.",
		"A tombstone in memory does not survive the restart that delayed the call.", nil},
	{"late_do_accepted_at_once", "2", "An action that runs at the same time as its compensation leaves an effect.",
		"Whichever comes first, no effect may remain: both must lock the same row.",
		[]string{"late_do_accepted_after_a_lost_answer"}},
	{"late_do_accepted_after_a_lost_answer", "2", "An action whose connection broke leaves an effect after its compensation.",
		"A call that timed out may still be running when its compensation arrives: the compensation must wait for it or " +
			"stop it, and reject later attempts.", nil},
	{"done_again_after_undo", "2", "An action that was applied and compensated is applied again when a late copy arrives.",
		"The compensation will not come a second time, so the second effect stays forever.",
		[]string{"done_again_after_undo_after_restart"}},
	{"done_again_after_undo_after_restart", "2",
		"After a restart, an action that was applied and compensated is applied again when a late copy arrives.",
		"The compensation will not come a second time, so the second effect stays forever.", nil},
	{"unknown_undo_refused", "2", "The compensation of an action that never arrived is refused.",
		"Skald compensates steps that may have been applied; a refusal ends the saga as failed and not clean.", nil},
	{"undo_refused", "2", "The compensation of an action that was applied is refused.",
		"The saga ends as failed and not clean, and the effect remains.", nil},
	{"undone_nothing_after_restart", "2", "After a restart, a compensation gets a success response but undoes nothing.",
		"A participant that forgets what it did leaves the effect in place, and nothing reports this.", nil},
	{"undone_without_do", "2", "A compensation undoes something that was never done.",
		"A refund for a charge that never happened gives money away.", nil},
	{"done_without_effect", "3", "A call gets a success response but has no effect.",
		"Skald continues with the next step, and what it believes to be done is missing.", nil},
	{"refused_although_applied", "4", "A call is refused although it was applied.",
		"Skald does not compensate a refused step, so the effect is never undone.", nil},
	{"fence_ignored", "fence", "A call is accepted although its fence is older than one seen before.",
		"A node that was declared dead may still send a prepared call that contradicts what the new owner decided.",
		[]string{"fence_forgotten_after_restart"}},
	{"fence_forgotten_after_restart", "fence", "The participant forgets fences when it restarts.",
		"Nodes and participants often restart together, and that is when late calls arrive.", nil},
	{"refusal_of_a_late_call_kept", "fence", "After refusing a late call, the participant also refuses the valid call with the same key.",
		"An old node must not be able to block its successor.", nil},
	{"new_run_refused", "operator", "A new run of a compensated step is refused.",
		"If an operator retries a saga from an earlier step, Skald sends a new key (…#2): this is new work.",
		[]string{"refusal_of_a_late_call_kept"}},
	{"tenants_mixed", "tenant", "Sagas of two tenants with the same id are treated as one saga.",
		"Two tenants may choose the same id; one of them then gets the other's results.", nil},
	{"sagas_mixed", "fence", "Calls of one saga affect how calls of another saga are handled.",
		"Sagas are independent: each has its own keys, fences and compensations.", nil},
	{"unknown_members_refused", "response", "A call with unknown headers or members fails.",
		"Proxies add headers, and later versions of Skald add members.", nil},
	{"first_seen_attempt_refused", "1", "A call whose attempt is not 1 is refused, although it is the first to arrive.",
		"Earlier attempts may never have arrived, so the first call that arrives may have any number.", nil},
	{"later_never_reported", "later", "A call is answered later, but no report arrives.",
		"The saga waits until later_ms has passed; then the step is in doubt and is repeated or compensated.",
		[]string{"later_never_reported_after_restart"}},
	{"later_never_reported_after_restart", "later", "The participant forgets accepted work when it restarts.",
		"Answer later only when the work and its callback are durable: work held only in memory is never reported.",
		[]string{"done_again_after_restart", "answer_changed_after_restart"}},
	{"later_report_invalid", "later", "A report is invalid.",
		"An invalid report decides nothing, so the step is in doubt although its outcome is known.", nil},
	{"later_repeat_refused", "later",
		"The repeat of a call that is answered later is refused or fails while the work is in progress.",
		"Skald takes a refusal as the outcome and compensates, although the work may still be completed.",
		[]string{"later_answer_changed", "answer_changed_after_restart"}},
	{"later_old_callback", "later", "A report goes to the callback of an older attempt.",
		"Skald has abandoned that attempt: the report comes too late, and the newest attempt gets none.", nil},
	{"later_done_again", "later", "The repeat of a call that is answered later starts the work again.",
		"Skald repeats the call when the wait is over; a participant that starts again charges twice.", nil},
	{"later_done_without_effect", "later", "A call is reported as done but has no effect.",
		"Skald continues with the next step, and what it believes to be done is missing.", nil},
	{"later_repeat_not_final", "later", "After the report, a repeat of the call is answered later again.",
		"If the report was lost, only a repeat can return the outcome: without it, the step stays in doubt.",
		[]string{"done_again_after_restart"}},
	{"later_answer_changed", "later", "The repeat of a call gets a response that differs from the report.",
		"If the report was lost, later steps work with the repeat's response as the output: both must be the same.",
		[]string{"answer_changed_after_restart"}},
	{"later_undo_refused", "later", "A compensation is refused while the work is in progress.",
		"If no report arrives, Skald compensates; a refusal ends the saga as failed and not clean.", nil},
	{"later_done_after_undo", "later", "Work takes effect after its step was compensated.",
		"The compensation is not sent again, so the effect is never undone.", []string{"late_do_accepted"}},
}

// cause returns the code under which a breach is reported, given all codes that were found.
func cause(code string, found []string) string {
	for _, f := range findings {
		if f.code != code && slices.Contains(found, f.code) && slices.Contains(f.explains, code) {
			return cause(f.code, found)
		}
	}
	return code
}
