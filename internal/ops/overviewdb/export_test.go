package overviewdb

// SearchText is the statement of Search.
var SearchText = everything.Text

// LettersByMinute is the statement that counts letters by the minute.
const LettersByMinute = lettersByMinute

// SagasByMinute is the statement that counts sagas by the minute.
var SagasByMinute = sagasByMinute
