//! Fields over all nodes.

use std::sync::Arc;

use bucksaw_env::run_blocking;

use super::batch::BatchSlice;
use super::requester::Scatter;
use crate::fields::{FieldCollector, Fields, newest_records_request};
use crate::request::{Request, RequestError};
use crate::stats::QueryStats;

impl Scatter {
    /// The fields and labels of the newest matching records, with their commonest values: of the same records, and
    /// exactly as, one node with all of them would tell.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn fields(self: &Arc<Self>, request: Request) -> Result<(Fields, QueryStats), RequestError> {
        let request = newest_records_request(self.engine(), request);
        let mut answer = self.search(&request)?;
        let mut gathered = FieldCollector::new(self.engine());
        loop {
            let records = answer.next().await;
            if records.is_empty() {
                let stats = answer.stats();
                return Ok((gathered.finish(&request, stats.matched), stats));
            }
            let gather = move || {
                records.iter().flat_map(BatchSlice::records).for_each(|record| gathered.add(record));
                gathered
            };
            gathered = run_blocking(&self.timing.tasks, gather).await.ok_or(RequestError::Cancelled)?;
        }
    }
}
