package registrydb

// ParticipantTable exposes the table to the test of its columns.
var ParticipantTable = participantTable
