package registrydb

// ParticipantTable is the table itself, for the test of its columns.
var ParticipantTable = participantTable
