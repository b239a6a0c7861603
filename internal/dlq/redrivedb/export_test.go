package redrivedb

// What the tests of plans need: the very statements that the stores send.
const LockRunning = lockRunning

var ClaimChosen = claimChosen

// HotRedriveStatements are what redrives send to the database for every letter, by
// the names of their files in testdata.
var HotRedriveStatements = map[string]string{"letter_claim_chosen": claimChosen}
