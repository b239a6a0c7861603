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
	{"done_again", "1", "A repeated call is done again.",
		"Skald repeats a call whose answer it did not get; a participant that does it again charges twice.",
		append([]string{"done_twice_behind_equal_answers", "answer_changed"}, againCodes...)},
	{"done_twice_behind_equal_answers", "1", "A repeated call gets the first answer, but has its effect again.",
		"The answers look right, so only the money that is missing shows it.", againCodes},
	{"done_again_after_an_error", "1", "A call that was answered with an error was applied, and its repeat applies it again.",
		"5xx means unknown to Skald, so it repeats the call: the key must be stored with the effect, before the answer.",
		againCodes},
	{"answered_before_commit", "3", "The answer comes before the effect is durable.",
		"A crash just after the answer loses what Skald believes to be done, and no repeat will come.",
		append([]string{"done_without_effect", "done_again_after_restart"}, restartCodes...)},
	{"done_again_at_once", "1", "Repeats that arrive at the same moment are each done.",
		"Two calls that both find no key both do it: insert the key first, under a unique index.",
		[]string{"done_again_after_a_lost_answer", "late_do_accepted_at_once", "late_do_accepted_after_a_lost_answer"}},
	{"done_again_after_restart", "1", "Keys are forgotten when the participant restarts.",
		"Keys that are only in memory are forgotten at the moment in which repeats are likely.", restartCodes},
	{"done_again_after_a_lost_answer", "1", "A call whose connection broke is done again by its repeat.",
		"When the connection breaks, Skald cannot know whether the call was done: only the repeat can find out.",
		[]string{"done_again_after_undo", "late_do_accepted_after_a_lost_answer"}},
	{"answer_changed", "1", "A repeated call gets another answer, although it is not done again.",
		"The output of a step is what later steps and the compensation work with: an id that nothing has is lost.",
		[]string{"answer_changed_after_restart"}},
	{"answer_changed_after_restart", "1", "After a restart a repeated call gets another answer, although it is not done again.",
		"The output of a step is what later steps and the compensation work with, so it must be stored with the key.", nil},
	{"repeat_refused", "1", "The repeat of a call that was done is refused or fails.",
		"If the first answer was lost, Skald takes the refusal of the repeat for the result and compensates the order.", nil},
	{"repeated_undo_fails", "1", "The repeat of a compensation is refused or fails.",
		"A compensation whose first answer was lost gives up, and the saga needs a person although all is undone.", nil},
	{"late_do_accepted", "2", "An action that arrives after its compensation is done.",
		"A call that timed out may be delivered after its compensation; if it is then done, its effect stays forever.",
		[]string{"late_do_accepted_after_restart", "late_do_accepted_at_once", "late_do_accepted_after_a_lost_answer"}},
	{"late_do_accepted_after_restart", "2", "That a compensation came first is forgotten when the participant restarts.",
		"A tombstone in memory does not outlive the restart that made the call late.", nil},
	{"late_do_accepted_at_once", "2", "An action that meets its compensation leaves an effect.",
		"Whichever of the two comes first, no effect may remain: both must lock the same row.",
		[]string{"late_do_accepted_after_a_lost_answer"}},
	{"late_do_accepted_after_a_lost_answer", "2", "An action whose connection broke leaves an effect after its compensation.",
		"A call that timed out may still run when its compensation comes: the compensation must wait for it, or stop it, " +
			"and keep later attempts out.", nil},
	{"done_again_after_undo", "2", "An action that was done and undone is done again by a late copy.",
		"The compensation will not come a second time, so the second effect stays forever.",
		[]string{"done_again_after_undo_after_restart"}},
	{"done_again_after_undo_after_restart", "2", "After a restart, what was done and undone is done again by a late copy.",
		"The compensation will not come a second time, so the second effect stays forever.", nil},
	{"unknown_undo_refused", "2", "The compensation of an action that never arrived is refused.",
		"Skald compensates what may have been done; a refusal ends the saga as failed and not clean.", nil},
	{"undo_refused", "2", "The compensation of an action that was done is refused.",
		"The saga ends as failed and not clean, with the effect in place.", nil},
	{"undone_nothing_after_restart", "2", "After a restart a compensation is answered with success and undoes nothing.",
		"A participant that forgets what it has done leaves its effect in place, and nothing reports it.", nil},
	{"undone_without_do", "2", "A compensation undoes what was never done.",
		"The refund of a charge that never happened gives money away.", nil},
	{"done_without_effect", "3", "A call is answered with success and has no effect.",
		"Skald continues with the next step, and what it believes to be done is missing.", nil},
	{"refused_although_applied", "4", "A call is refused although it was applied.",
		"Skald does not compensate a step that was refused, so the effect stays forever.", nil},
	{"fence_ignored", "fence", "A call with an older fence than one seen is accepted.",
		"A node that was declared dead may still send what it had prepared, against what the new owner has decided.",
		[]string{"fence_forgotten_after_restart"}},
	{"fence_forgotten_after_restart", "fence", "Fences are forgotten when the participant restarts.",
		"Nodes and participants often restart together, and late calls arrive just then.", nil},
	{"refusal_of_a_late_call_kept", "fence", "After a late call was refused, the right call with its key is refused too.",
		"An old node must not be able to block what its successor does.", nil},
	{"new_run_refused", "operator", "The new run of a step that was compensated is refused.",
		"An operator who retries a saga from an earlier step sends a new key (…#2): it is new work.",
		[]string{"refusal_of_a_late_call_kept"}},
	{"tenants_mixed", "tenant", "A saga of another tenant with the same id is taken for the same saga.",
		"Two tenants may choose the same id; the one then gets what the other did.", nil},
	{"sagas_mixed", "fence", "What was seen of one saga decides about another.",
		"Sagas are independent: their keys, fences and compensations are their own.", nil},
	{"unknown_members_refused", "response", "Unknown headers or members make a call fail.",
		"Proxies add headers, and later versions of Skald add members.", nil},
	{"first_seen_attempt_refused", "1", "A call whose attempt is not 1 is refused, although it is the first to arrive.",
		"Earlier attempts may never have arrived, so the first call that arrives may have any number.", nil},
	{"later_never_reported", "later", "A call is answered later, and no report comes.",
		"The saga waits until later_ms is over; then the step is in doubt, and is repeated or compensated.",
		[]string{"later_never_reported_after_restart"}},
	{"later_never_reported_after_restart", "later", "Work that was taken is forgotten when the participant restarts.",
		"A call is answered later when the work is durable, with its callback: what is only in memory is never reported.",
		[]string{"done_again_after_restart", "answer_changed_after_restart"}},
	{"later_report_invalid", "later", "A report is not one that Skald takes.",
		"It decides nothing, so the step is in doubt although its outcome is known.", nil},
	{"later_repeat_refused", "later", "The repeat of a call that is answered later is refused or fails while the work goes on.",
		"Skald takes a refusal for the outcome and compensates, although the work may still be done.",
		[]string{"later_answer_changed", "answer_changed_after_restart"}},
	{"later_old_callback", "later", "A report goes to the callback of an older attempt.",
		"Skald has given that attempt up: the report is too late, and the newest attempt gets none.", nil},
	{"later_done_again", "later", "The repeat of a call that is answered later begins the work again.",
		"Skald repeats the call when the wait is over; a participant that begins again charges twice.", nil},
	{"later_done_without_effect", "later", "Done is reported, and there is no effect.",
		"Skald continues with the next step, and what it believes to be done is missing.", nil},
	{"later_repeat_not_final", "later", "After its report a call is answered later again.",
		"If the report was lost, only the repeat tells the outcome: without it the step stays in doubt.",
		[]string{"done_again_after_restart"}},
	{"later_answer_changed", "later", "The repeat of a call gets another answer than was reported.",
		"If the report was lost, the repeat's answer is the output that later steps work with: both must be the same.",
		[]string{"answer_changed_after_restart"}},
	{"later_undo_refused", "later", "A compensation is refused while the work goes on.",
		"When no report comes Skald compensates; a refusal ends the saga as failed and not clean.", nil},
	{"later_done_after_undo", "later", "Work whose step was compensated takes effect afterwards.",
		"The compensation will not come a second time, so the effect stays forever.", []string{"late_do_accepted"}},
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
