package overview

import (
	"fmt"
	"strings"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/saga"
)

// of returns "1 saga of order", "41 sagas of order".
func (c *Cause) of(one, many string) string {
	if c.Count.N == 1 && !c.Count.Capped {
		return "1 " + one
	}
	return c.Count.number() + " " + many
}

// verb returns the form of a verb that agrees with the count.
func (c *Cause) verb(one, many string) string {
	if c.Count.N == 1 && !c.Count.Capped {
		return one
	}
	return many
}

func (c *Cause) withCode() string {
	if c.Code == "" {
		return ""
	}
	return " (" + c.Code + ")"
}

// step returns the name of the step, or a phrase for an unknown one.
func (c *Cause) step() string {
	if c.Step == "" {
		return "a step"
	}
	return c.Step
}

// waiting returns a phrase for how many sagas wait for a participant.
func (c *Cause) waiting() string {
	switch c.Wait {
	case Count{}:
		return ""
	case Count{N: 1}:
		return "; one saga waits"
	}
	return "; " + c.Wait.number() + " sagas wait"
}

// Summary describes the cause in one sentence.
func (c *Cause) Summary() string {
	sagas := c.of("saga", "sagas") + " of " + c.Name
	switch c.Kind {
	case SagasAttention:
		switch c.Why {
		case saga.ReasonUndoFailed:
			return fmt.Sprintf("%s: the compensation of %s gave up%s", sagas, c.step(), c.withCode())
		case saga.ReasonUndoTimeout:
			return fmt.Sprintf("%s: the compensation missed its deadline at %s%s", sagas, c.step(), c.withCode())
		case saga.ReasonForced:
			return sagas + " " + c.verb("was", "were") + " forced to fail: effects may remain"
		case saga.ReasonStepFailed:
			return fmt.Sprintf("%s %s suspended at %s, which has failed%s", sagas, c.verb("is", "are"), c.step(), c.withCode())
		case saga.ReasonPivotDeadline:
			return fmt.Sprintf("%s %s past the deadline, at %s, and can no longer be compensated", sagas, c.verb("is", "are"), c.step())
		case saga.ReasonPivotCancel:
			return fmt.Sprintf("%s %s to be compensated, but the pivot has or may have taken effect", sagas, c.verb("was", "were"))
		}
		return sagas + " " + c.verb("was", "were") + " marked for attention by a person"
	case SagasStuck:
		switch c.Why {
		case saga.ReasonUnowned:
			return fmt.Sprintf("%s %s due, but no node takes %s", sagas, c.verb("is", "are"), c.verb("it", "them"))
		case saga.ReasonNoAnswer:
			return fmt.Sprintf("%s: a call of %s has gone unanswered for too long", sagas, c.step())
		}
		return fmt.Sprintf("%s: %s keeps failing%s", sagas, c.step(), c.withCode())
	case GroupNew:
		if c.Groups > 0 {
			return fmt.Sprintf("%d new errors of type %s in %s, most often “%s”", c.Groups, c.Code, c.Name, c.Text)
		}
		return fmt.Sprintf("A new error in %s: “%s”", c.Name, c.Text)
	case GroupRegressed:
		if c.Groups > 0 {
			return fmt.Sprintf("%d errors of type %s came back in %s, most often “%s”", c.Groups, c.Code, c.Name, c.Text)
		}
		return fmt.Sprintf("An error came back in %s: “%s”", c.Name, c.Text)
	case RedriveHalted:
		return "A redrive of dead letters was halted" + c.withCode()
	case RedriveWaiting:
		return "A redrive of dead letters is waiting for a second person's approval"
	case RunsFailed:
		if c.Code == jobrun.ErrTimedOut {
			return fmt.Sprintf("Job %s timed out: %s in the last 24 h", c.Name, c.of("run", "runs"))
		}
		return fmt.Sprintf("Job %s failed: %s in the last 24 h%s", c.Name, c.of("run", "runs"), c.withCode())
	case RunsLate:
		return fmt.Sprintf("%s in queue %s %s late", c.of("run", "runs"), c.Name, c.verb("is", "are"))
	case QueueUntaken:
		return fmt.Sprintf("No worker takes %s from queue %s", c.of("run", "runs"), c.Name)
	case WorkerLost:
		return fmt.Sprintf("Worker %s is silent", c.Name)
	case WebhookDisabled:
		return fmt.Sprintf("Webhook %s is disabled%s", c.Name, c.withCode())
	case WebhookFailing:
		return fmt.Sprintf("Deliveries to webhook %s are failing", c.Name)
	case ParticipantHeld:
		if who, why, by := strings.Cut(c.Text, " holds it"); by && c.Why == byPerson {
			return fmt.Sprintf("%s holds the participant %s%s%s", who, c.Name, why, c.waiting())
		}
		return fmt.Sprintf("Participant %s is held: %s%s", c.Name, c.Text, c.waiting())
	case QueueHeld:
		why := ""
		if c.Text != "" {
			why = ": " + c.Text
		}
		if c.Wait == (Count{}) {
			return fmt.Sprintf("Queue %s is held%s", c.Name, why)
		}
		return fmt.Sprintf("Queue %s is held%s; runs that wait: %s", c.Name, why, c.Wait.number())
	case NoLeader:
		return "No node leads the job scheduler"
	}
	return fmt.Sprintf("Node %s leads the job scheduler, but does not look for lost and late runs", c.Name)
}

// Means describes the consequences of the cause and the remedy.
func (c *Cause) Means() string {
	switch c.Kind {
	case SagasAttention:
		switch c.Why {
		case saga.ReasonUndoFailed, saga.ReasonUndoTimeout:
			return "Effects of these sagas remain. Once the participant answers again, resume the compensation."
		case saga.ReasonForced:
			return "Compare the participants' data, repair what remains, and acknowledge."
		case saga.ReasonStepFailed:
			return "Retry, complete or skip the step, or compensate; until then the saga makes no call."
		case saga.ReasonPivotDeadline, saga.ReasonPivotCancel:
			return "The saga goes forward until it completes. Its explanation shows what it is waiting for."
		}
		return "Read the reason on the saga's page, deal with it, and acknowledge."
	case SagasStuck:
		if c.Why == saga.ReasonUnowned {
			return "Check that nodes with the role engine are alive and have free slots."
		}
		return "The saga continues automatically when its participant answers. Its explanation shows what it is waiting for."
	case GroupNew:
		if c.Groups > 0 {
			return "None of these errors has been acknowledged. Acknowledge them on their page, or fix their cause and retry all their letters."
		}
		return "This error has not been acknowledged. Acknowledge it on its page, or fix its cause and retry its letters."
	case GroupRegressed:
		if c.Groups > 0 {
			return "The errors were resolved, but letters with them have arrived since then: the fix did not last."
		}
		return "The error was resolved, but letters with it have arrived since then: the fix did not last."
	case RedriveHalted:
		return "Its unsent letters are waiting. Look at its failures before you resume it."
	case RedriveWaiting:
		return "It starts once someone other than its requester approves it."
	case RunsFailed:
		return "No retries are left. Read the log, fix the cause, and run the job again."
	case RunsLate:
		return "Workers are busy, or a concurrency key holds the runs back; the explanation of a run shows which."
	case QueueUntaken:
		return "Start a worker for this queue with the labels and the command that the runs require."
	case WorkerLost:
		return "Its runs go to other workers when their leases end. Detach it if its process is certainly dead."
	case WebhookDisabled:
		return "Its receiver gets no events until it is enabled again; events since then can be sent again."
	case WebhookFailing:
		return "Skald retries, and eventually disables the webhook. Test it once the receiver is fixed."
	case ParticipantHeld:
		if c.Why == byPerson {
			return "Nothing is sent to it until a person releases it. Waiting calls use up no attempts, but deadlines still apply."
		}
		return "Skald makes one waiting call from time to time, and lets the others through once one succeeds."
	case QueueHeld:
		return "Workers get no runs from it until a person releases it. Its runs keep their order."
	case NoLeader:
		return "No runs are created for slots, and lost runs are not detected. Start a node with the role scheduler."
	}
	return "Until it does, lost runs stay assigned to their lost workers. See the log of that node."
}
