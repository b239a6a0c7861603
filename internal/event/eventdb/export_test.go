package eventdb

// These are the statements themselves, for the tests of plans.
var (
	WebhookTable    = webhookTable
	DeliveryTable   = deliveryTable
	ClaimDeliveries = claimDeliveries
	ReadyWebhooks   = readyWebhooks
	WebhookBacklog  = webhookBacklog
	RedeliverFailed = redeliverFailed
	Unpublished     = unpublished
)
