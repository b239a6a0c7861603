package eventdb

// What the tests of plans need: the very statements that the stores send.
var (
	WebhookTable    = webhookTable
	DeliveryTable   = deliveryTable
	ClaimDeliveries = claimDeliveries
	ReadyWebhooks   = readyWebhooks
	RedeliverFailed = redeliverFailed
	Unpublished     = unpublished
)
