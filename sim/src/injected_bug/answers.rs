//! Wrong answers, as bugs in the search over columnar blocks make them.
//!
//! The bugs touch only rows that lie in columnar blocks of the cluster, so a run without columnar blocks does not find them.

use std::collections::BTreeSet;

use bucksaw_query::Order;
use bucksaw_record::Id;

use super::InjectedBug;
use crate::checked_answer::AnswerContent;
use crate::query_filter::QueryFilter;
use crate::query_kind::QueryKind;
use crate::sim_cluster::SimCluster;

/// A bug in the answers to queries.
#[derive(Clone, Debug)]
pub(crate) struct AnswerBug {
    bug: InjectedBug,
    /// The ids of each columnar block when the query was sent.
    blocks: Vec<BTreeSet<Id>>,
}

impl AnswerBug {
    /// `None` if the cluster has no bug of answers.
    pub(crate) fn of(cluster: &SimCluster) -> Option<Self> {
        let bug = cluster.bug.filter(|bug| {
            matches!(
                bug,
                InjectedBug::ColumnRowWrong
                    | InjectedBug::ColumnMatchMissed
                    | InjectedBug::ColumnBlockDropped
                    | InjectedBug::NewestFirstOffByOne
            )
        })?;
        Some(Self { bug, blocks: cluster.columnar_blocks() })
    }

    /// The query that is sent in place of `kind`.
    pub(crate) fn sent_kind(&self, kind: QueryKind) -> QueryKind {
        match kind {
            QueryKind::Records(Order::Descending, Some(limit), filter)
                if self.bug == InjectedBug::NewestFirstOffByOne =>
            {
                QueryKind::Records(Order::Descending, Some(limit + 1), filter)
            }
            _ => kind,
        }
    }

    /// Changes an answer to `kind`.
    pub(crate) fn apply(&self, kind: QueryKind, content: &mut AnswerContent) {
        let (AnswerContent::Records(found), QueryKind::Records(order, limit, filter)) = (content, kind) else { return };
        let is_columnar = |id: &Id| self.blocks.iter().any(|block| block.contains(id));
        match self.bug {
            InjectedBug::ColumnRowWrong => {
                let pair = found.windows(2).position(|pair| pair.iter().all(|(id, _)| is_columnar(id)));
                if let Some([(_, one), (_, next)]) = pair.and_then(|at| found.get_mut(at..at + 2)) {
                    std::mem::swap(one, next);
                }
            }
            InjectedBug::ColumnMatchMissed if filter != QueryFilter::ALL => {
                if let Some(at) = found.iter().position(|(id, _)| is_columnar(id)) {
                    found.remove(at);
                }
            }
            InjectedBug::ColumnBlockDropped => {
                if let Some(block) = self.blocks.first() {
                    found.retain(|(id, _)| !block.contains(id));
                }
            }
            InjectedBug::NewestFirstOffByOne
                if order == Order::Descending && limit.is_some_and(|limit| found.len() as u64 > limit) =>
            {
                found.remove(0);
            }
            _ => {}
        }
    }
}
