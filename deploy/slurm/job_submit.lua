-- slurm.conf, JobSubmitPlugins=lua: an example. A job on one node has nothing to pace and runs without the shim;
-- every other job is observed unless its user said --comment=paceline=off.

local function without_shim(job)
    if job.environment == nil then -- interactive: srun takes the user's own environment
        return
    end
    job.environment["PACELINE_SHIM"] = "0"
end

function slurm_job_submit(job, partitions, user)
    local one_node = job.max_nodes == 1 or (job.min_nodes == 1 and job.max_nodes == slurm.NO_VAL)
    if one_node or (job.comment or ""):find("paceline=off", 1, true) then
        without_shim(job)
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end

return slurm.SUCCESS
