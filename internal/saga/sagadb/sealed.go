package sagadb

import "github.com/skald-saga/skald/internal/postgres"

// SealedTables are the saga tables with sealed content. Audit events have none.
func SealedTables() (all []postgres.SealedTable) {
	of := func(name, field string, path ...string) postgres.SealedValue {
		return postgres.SealedValue{Column: name, Field: field, Inside: members(field, path)}
	}
	for _, suffix := range []string{"", "_archive"} {
		all = append(all, postgres.SealedTable{
			Name: "saga.saga_states" + suffix, Key: []string{"id", "tenant_id"}, Place: "id",
			Values: []postgres.SealedValue{
				of("payload", fieldPayload.Name), of("result_data", fieldResult.Name), of("error", fieldError.Name, "details"),
				{Column: "interventions", Inside: []postgres.SealedMember{
					{Path: []string{"steps", "*", "input"}, Field: fieldInput},
					{Path: []string{"steps", "*", "next", "input"}, Field: fieldNextInput},
					{Path: []string{"order", "output"}, Field: fieldOutput.Name},
				}},
			},
		}, postgres.SealedTable{
			Name: "saga.saga_step_logs" + suffix, Key: []string{"id"}, Place: "saga_id",
			Step: "step_index", Action: "action", Attempt: "attempt",
			Values: []postgres.SealedValue{
				of("request_payload", fieldRequest), of("response_payload", fieldResponse), of("error", fieldLogError, "details"),
			},
		})
	}
	return all
}

func members(field string, path []string) []postgres.SealedMember {
	if path == nil {
		return nil
	}
	return []postgres.SealedMember{{Path: path, Field: field}}
}
