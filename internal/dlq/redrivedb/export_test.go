package redrivedb

// What the tests of plans need: the very statements that the stores send.
var (
	LockRunning  = lockRunning
	ClaimChosen  = claimChosen
	RedriveTable = redriveTable
	ItemTable    = itemTable
	FinishItems  = finishItems.Text
)

// HotRedriveStatements are what redrives send to the database for every letter, by
// the names of their files in testdata.
var HotRedriveStatements = map[string]string{"letter_claim_chosen": claimChosen}
