package httpapi

import "net/http"

func (a answer) VisitRegisterWorkerResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a answer) VisitListWorkersResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitGetWorkerResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitDrainWorkerResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitUndrainWorkerResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitDetachWorkerResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitWorkerHeartbeatResponse(w http.ResponseWriter) error     { return a.write(w) }
func (a answer) VisitClaimRunsResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitStartRunsResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitCompleteRunsResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitStartRunResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitReportProgressResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a answer) VisitCompleteRunResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitFailRunResponse(w http.ResponseWriter) error             { return a.write(w) }
func (a answer) VisitReleaseRunResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitAcknowledgeCancelResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a answer) VisitConfirmContinuationResponse(w http.ResponseWriter) error { return a.write(w) }
func (a answer) VisitAppendRunLogResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitCheckFenceResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitGetLeaderResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitStepDownLeaderResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a answer) VisitGetSettingsResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitChangeSettingsResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a answer) VisitListSettingChangesResponse(w http.ResponseWriter) error  { return a.write(w) }
