package eventdb

// The statements themselves, for the tests of plans.
var (
	WebhookTable    = webhookTable
	DeliveryTable   = deliveryTable
	ClaimDeliveries = claimDeliveries
	ReadyWebhooks   = readyWebhooks
	RedeliverFailed = redeliverFailed
	Unpublished     = unpublished
)
