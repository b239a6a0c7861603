package overview

import "fmt"

// of returns "1 saga of order", "41 sagas of order".
func (c *Cause) of(one, many string) string {
	if c.Count.N == 1 && !c.Count.Capped {
		return "1 " + one
	}
	return c.Count.number() + " " + many
}

// verb returns the form of a verb that fits the count.
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

// step names the step, or says that it is unknown.
func (c *Cause) step() string {
	if c.Step == "" {
		return "a step"
	}
	return c.Step
}

// Summary says in one sentence what is the matter.
func (c *Cause) Summary() string {
	sagas := c.of("saga", "sagas") + " of " + c.Name
	switch c.Kind {
	case SagasAttention:
		switch c.Why {
		case whyUndoFailed:
			return fmt.Sprintf("%s: the undo of %s gave up%s", sagas, c.step(), c.withCode())
		case whyUndoTimeout:
			return fmt.Sprintf("%s: the compensation did not end in time, at %s%s", sagas, c.step(), c.withCode())
		case whyForced:
			return sagas + " " + c.verb("was", "were") + " failed by force: effects may remain"
		}
		return sagas + " " + c.verb("was", "were") + " marked by a person"
	case SagasStuck:
		switch c.Why {
		case whyUnowned:
			return fmt.Sprintf("%s %s due, but no node takes %s", sagas, c.verb("is", "are"), c.verb("it", "them"))
		case whyNoAnswer:
			return fmt.Sprintf("%s: a call of %s has been unanswered for too long", sagas, c.step())
		}
		return fmt.Sprintf("%s: %s keeps failing%s", sagas, c.step(), c.withCode())
	case GroupNew:
		return fmt.Sprintf("A new error in %s: “%s”", c.Name, c.Text)
	case GroupRegressed:
		return fmt.Sprintf("An error came back in %s: “%s”", c.Name, c.Text)
	case RedriveHalted:
		return "A redrive of dead letters halted itself" + c.withCode()
	case RedriveWaiting:
		return "A redrive of dead letters waits for the approval of a second person"
	case RunsFailed:
		return fmt.Sprintf("Job %s failed: %s in the last 24 h%s", c.Name, c.of("run", "runs"), c.withCode())
	case RunsLate:
		return fmt.Sprintf("%s in queue %s %s late", c.of("run", "runs"), c.Name, c.verb("is", "are"))
	case QueueUntaken:
		return fmt.Sprintf("No worker takes %s of queue %s", c.of("run", "runs"), c.Name)
	case WorkerLost:
		return fmt.Sprintf("Worker %s is silent", c.Name)
	case WebhookDisabled:
		return fmt.Sprintf("Webhook %s is disabled%s", c.Name, c.withCode())
	case WebhookFailing:
		return fmt.Sprintf("Deliveries to webhook %s fail", c.Name)
	case NoLeader:
		return "No node leads the job runs"
	}
	return fmt.Sprintf("Node %s leads the job runs, but does not look for lost and late runs", c.Name)
}

// Means says what follows from it, and what helps.
func (c *Cause) Means() string {
	switch c.Kind {
	case SagasAttention:
		switch c.Why {
		case whyUndoFailed, whyUndoTimeout:
			return "Effects of these sagas remain. When the participant answers again, resume the compensation."
		case whyForced:
			return "Compare the participants' data, mend what remains, and acknowledge."
		}
		return "Read the reason on the saga, and acknowledge when it is dealt with."
	case SagasStuck:
		if c.Why == whyUnowned {
			return "See whether nodes with the role engine are alive and have free slots."
		}
		return "The saga continues automatically when its participant answers. Its explanation says what it waits for."
	case GroupNew:
		return "This error has not been acknowledged. Acknowledge it, or mend the cause and retry its letters."
	case GroupRegressed:
		return "It was resolved, and letters with it have arrived since. The mending did not last."
	case RedriveHalted:
		return "Letters that it has not sent wait. Look at its failures before it resumes."
	case RedriveWaiting:
		return "It starts when someone other than its requester approves it."
	case RunsFailed:
		return "No retry is left. Read the log, mend the cause, and run it again."
	case RunsLate:
		return "Workers are busy, or a concurrency key holds the runs back. Their explanation says which."
	case QueueUntaken:
		return "Start a worker for this queue that has the labels and the command that the runs want."
	case WorkerLost:
		return "Its runs go to other workers when their leases end. Detach it if its process is certainly dead."
	case WebhookDisabled:
		return "Its receiver gets no events until it is enabled again; events since then can be sent again."
	case WebhookFailing:
		return "Skald retries and disables it in the end. Test it when the receiver is mended."
	case NoLeader:
		return "No slot becomes a run and lost runs are not found. Start a node with the role scheduler."
	}
	return "Lost runs stay with lost workers until it does. See the log of this node."
}
