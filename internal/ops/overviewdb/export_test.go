package overviewdb

// SearchText is the statement of Search.
var SearchText = everything.Text

// LettersByMinute is the statement that counts letters per minute.
const LettersByMinute = lettersByMinute

// SagasByMinute is the statement that counts sagas per minute.
var SagasByMinute = sagasByMinute
