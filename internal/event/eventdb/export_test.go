package eventdb

// What the tests of plans need: the very statements that the stores send.
const (
	ClaimDeliveries = claimDeliveries
	ReadyWebhooks   = readyWebhooks
	RedeliverFailed = redeliverFailed
	Unpublished     = unpublished
)
